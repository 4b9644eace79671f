// What a careful reader would look for in a page; returns a list of complaints. Run by the tests inside the browser.
() => {
  const complaints = []
  const say = (what, element) => complaints.push(`${what}: ${(element.outerHTML || "").slice(0, 120)}`)
  const visible = (element) => element.checkVisibility() && !element.closest(".unseen")
  const all = (query) => [...document.querySelectorAll(query)]

  // landmarks, headings, names
  if (!document.documentElement.lang) complaints.push("no language")
  if (!document.title.includes("Quietshelf")) complaints.push("no title")
  for (const [query, least] of [["main", 1], ["header", 1], ["footer", 1], ["h1", 1]])
    if (all(query).length !== least) complaints.push(`${all(query).length} of ${query}`)
  let level = 0
  for (const heading of all("h1, h2, h3, h4")) {
    const next = Number(heading.tagName[1])
    if (next > level + 1) say(`h${next} after h${level}`, heading)
    level = next
  }
  for (const input of all("input:not([type=hidden]):not([hidden])")) if (!input.labels.length) say("no label", input)
  for (const button of all("button, a")) if (!button.textContent.trim() && !button.ariaLabel) say("no name", button)
  for (const nav of all("nav")) if (!nav.ariaLabel) say("nav without a name", nav)
  for (const table of all("table")) {
    if (!table.caption?.textContent.trim()) say("no caption", table)
    for (const cell of table.querySelectorAll("th")) if (!cell.scope) say("th without scope", cell)
  }
  for (const image of all("svg:not([aria-hidden=true])"))
    for (const id of (image.getAttribute("aria-labelledby") || "missing").split(" "))
      if (!document.getElementById(id)?.textContent.trim()) say("chart without title or description", image)
  for (const image of all("img")) if (image.getAttribute("alt") === null) say("no alt", image)
  const ids = all("[id]").map((element) => element.id)
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) complaints.push(`id twice: ${id}`)
  for (const element of all("[aria-labelledby], [aria-describedby]"))
    for (const id of `${element.getAttribute("aria-labelledby") || ""} ${element.getAttribute("aria-describedby") || ""}`.split(" "))
      if (id && !document.getElementById(id)) say(`names a missing ${id}`, element)

  // contrast, as WCAG computes it: 4.5 for text, 3 for large text
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true })
  const pixel = (colour, under) => {
    canvas.clearRect(0, 0, 1, 1)
    if (under) { canvas.fillStyle = `rgb(${under})`; canvas.fillRect(0, 0, 1, 1) }
    canvas.fillStyle = colour
    canvas.fillRect(0, 0, 1, 1)
    return [...canvas.getImageData(0, 0, 1, 1).data]
  }
  const behind = (element) => {
    const layers = []
    for (let at = element; at; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor)
    return layers.reduce((under, colour) => pixel(colour, under).slice(0, 3), [255, 255, 255])
  }
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  for (const element of all("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
    if (!own || !visible(element) || ["TITLE", "desc", "title", "SCRIPT"].includes(element.tagName)) continue
    const style = getComputedStyle(element), back = behind(element)
    const colour = element instanceof SVGElement ? style.fill : style.color
    const [a, b] = [light(pixel(colour, back).slice(0, 3)), light(back)]
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700)
    if (ratio < (large ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, element)
    if (size < 11.5) say(`letters of ${size}px`, element)
  }

  // nothing wider than the page, nothing too small for a finger
  if (document.documentElement.scrollWidth > innerWidth) complaints.push(`wider than the page: ${document.documentElement.scrollWidth}`)
  for (const button of all("button, summary, .top nav a"))
    if (visible(button) && button.getBoundingClientRect().height < 24) say("too small to touch", button)
  return complaints
}
