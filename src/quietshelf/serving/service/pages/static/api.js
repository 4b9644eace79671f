// Builds the page of the API from openapi.json: groups, requests, a form for each. What is sent goes to this service alone.
const all = document.getElementById("operations")
const root = all.dataset.root
const EXAMPLES = { shelf: "try-teas", offer: "" }
let made = 0

function put(parent, tag, text = "", attributes = {}) {
  const element = document.createElement(tag)
  words(element, text)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  parent.append(element)
  return element
}

function words(element, text) { // `code` in descriptions
  for (const [index, part] of text.split("`").entries()) {
    if (index % 2) put(element, "code").textContent = part
    else element.append(part)
  }
}

function field(form, name, attributes = {}, tag = "input") {
  const box = put(form, "div"), id = `field-${++made}`
  put(box, "label", name, { for: id })
  return put(box, tag, "", { id, name, autocomplete: "off", spellcheck: "false", ...attributes })
}

function fields(box, body) {
  const list = put(put(box, "details"), "dl", "", { class: "api-fields" })
  put(list.parentElement, "summary", "Fields of the body")
  for (const [name, about] of Object.entries(body.properties || {})) {
    put(list, "dt").append(put(list, "code", name))
    put(list, "dd", `${about.description || ""}${(body.required || []).includes(name) ? " Required." : ""}`)
  }
}

function filled(path, inputs) {
  return path.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(inputs[name].value))
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`
}

function curl(method, url, headers, body) {
  const lines = [`curl -X ${method} ${quoted(url)}`]
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`)
  if (body !== undefined) lines.push(`-d ${quoted(body)}`)
  return lines.join(" \\\n  ")
}

function request(method, path, it, inputs, area) {
  const headers = {}, query = new URLSearchParams()
  for (const p of it.parameters || []) {
    if (p.in === "query" && inputs[p.name].value) query.set(p.name, inputs[p.name].value)
    if (p.in === "header" && inputs[p.name].value) headers[p.name] = inputs[p.name].value
  }
  if (it.security) headers.Authorization = `Bearer ${document.getElementById("key").value}`
  if (area) headers["Content-Type"] = "application/json"
  return { url: `${root}${filled(path, inputs)}${query.size ? `?${query}` : ""}`, headers }
}

async function send(method, asked, body, out) {
  const shown = { ...asked.headers }
  if (shown.Authorization) shown.Authorization = "Bearer $KEY"
  const command = curl(method, location.origin + asked.url, shown, body).replace("'Authorization: Bearer $KEY'", '"Authorization: Bearer $KEY"')
  out.command.textContent = command
  out.reply.textContent = "…"
  try {
    const reply = await fetch(asked.url, { method, headers: asked.headers, body, redirect: "error" })
    const text = await reply.text()
    out.reply.textContent = `${reply.status} ${reply.statusText}\n${pretty(text)}`
    if (reply.ok) remember(text)
  } catch (error) {
    out.reply.textContent = `No reply: ${error.message}`
  }
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 1) } catch { return text }
}

function remember(text) { // an offer that was just made is the one to answer
  try {
    const offer = JSON.parse(text).offer
    if (typeof offer === "string") for (const input of document.querySelectorAll("input[name=offer]")) input.value = offer
  } catch { return }
}

function tried(box, method, path, it, body) {
  const form = put(box, "form", "", { class: "api-try" }), inputs = {}
  for (const p of it.parameters || [])
    inputs[p.name] = field(form, p.name, { value: EXAMPLES[p.name] ?? "", ...(p.in === "path" ? { required: "" } : {}) })
  let area
  if (body) {
    const examples = (body.examples || [{}]).map((each) => JSON.stringify(each, null, 1))
    area = field(form, "Body", { rows: Math.min(14, examples[0].split("\n").length + 1) }, "textarea")
    area.value = examples[0]
    for (const [index, text] of examples.entries())
      if (examples.length > 1) put(form, "button", `Example ${index + 1}`, { type: "button", class: "quiet" }).onclick = () => { area.value = text }
  }
  put(form, "button", "Send", { type: "submit" })
  const out = { command: put(form, "pre", "", { hidden: "" }), reply: put(form, "pre", "", { hidden: "", role: "status" }) }
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    if (method === "DELETE" && !confirm("This deletes for good. Send it?")) return
    out.command.hidden = out.reply.hidden = false
    send(method, request(method, path, it, inputs, area), area?.value, out)
  })
}

function operation(section, method, path, it, find) {
  const box = put(section, "details", "", { class: "card api-operation", "data-request": `${method} ${path}` }), line = put(box, "summary")
  put(line, "span", method, { class: `chip method ${method.toLowerCase()}` })
  put(line, "code", path)
  put(line, "span", (it.description || "").split(". ")[0].replace(/\.$/, ""), { class: "small" })
  put(box, "p", it.description || "")
  for (const p of it.parameters || []) put(box, "p", `\`${p.name}\` (${p.in}): ${p.description || ""}`, { class: "small" })
  const body = it.requestBody && find(it.requestBody.content["application/json"]?.schema)
  if (body) fields(box, body)
  put(box, "p", "Replies: " + Object.entries(it.responses).map(([code, reply]) => `${code} ${reply.description}`).join(" · "), { class: "small" })
  tried(box, method, path, it, body)
}

const api = await (await fetch(`${root}/openapi.json`)).json()
const find = (schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema)
const groups = new Map((api.tags || []).map((tag) => [tag.name, { says: tag.description, list: [] }]))
for (const [path, methods] of Object.entries(api.paths))
  for (const [method, it] of Object.entries(methods)) {
    const name = (it.tags || ["other"])[0]
    if (!groups.has(name)) groups.set(name, { says: "", list: [] })
    groups.get(name).list.push([method.toUpperCase(), path, it])
  }
for (const [name, { says, list }] of groups) {
  if (!list.length) continue
  const section = put(all, "section", "", { class: "stack api-group", "aria-labelledby": `group-${name}` })
  put(section, "h2", name[0].toUpperCase() + name.slice(1), { id: `group-${name}` })
  if (says) put(section, "p", says)
  for (const [method, path, it] of list) operation(section, method, path, it, find)
}
