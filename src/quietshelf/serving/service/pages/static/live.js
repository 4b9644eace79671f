// Fetches the page again every few seconds and swaps the parts that changed. Without it the page is complete, and still.
const every = 1000 * Number(document.documentElement.dataset.every)
const bar = document.getElementById("live")
const words = document.getElementById("live-words")
const button = document.getElementById("pause")
const announce = document.getElementById("announce")
const drawn = new WeakMap()
let paused = false
let timer = 0

const parts = () => document.querySelectorAll("[data-live]")
const release = (root) => root.querySelector("[data-release]")?.dataset.release

function say(text, stale) {
  words.textContent = text
  bar.classList.toggle("stale", stale)
}

function swap(old, fresh) {
  const html = fresh.outerHTML
  for (const box of old.querySelectorAll("details[open]")) {
    const next = box.id && fresh.querySelector("#" + CSS.escape(box.id))
    if (next) next.open = true
  }
  old.replaceWith(document.adoptNode(fresh))
  fresh.classList.add("fresh")
  drawn.set(fresh, html)
}

function take(page) {
  const before = release(document), now = release(page) // what is swapped leaves the page it came with
  for (const old of parts()) {
    const fresh = page.getElementById(old.id)
    if (!fresh || fresh.outerHTML === drawn.get(old)) continue
    if (old.contains(document.activeElement)) continue // do not move keyboard focus
    swap(old, fresh)
  }
  if (before !== now && now !== undefined) announce.textContent = `Release ${now} has arrived.`
}

async function refresh() {
  if (paused || document.hidden) return
  try {
    const reply = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" })
    if (reply.type === "opaqueredirect" || reply.status === 401) {
      clearInterval(timer)
      say("Signed out: reload the page", true)
      announce.textContent = "You are signed out. Reload the page to sign in."
      return
    }
    if (!reply.ok) throw new Error(String(reply.status))
    take(new DOMParser().parseFromString(await reply.text(), "text/html"))
    say(`Live · ${new Date().toLocaleTimeString("en-GB")}`, false)
  } catch {
    say("Not reachable: trying again", true)
  }
}

if (bar) {
  for (const part of parts()) drawn.set(part, part.outerHTML)
  bar.hidden = false
  button.addEventListener("click", () => {
    paused = !paused
    button.setAttribute("aria-pressed", String(paused))
    say(paused ? "Paused" : "Live", paused)
    refresh()
  })
  document.addEventListener("visibilitychange", refresh)
  timer = setInterval(refresh, every)
}
