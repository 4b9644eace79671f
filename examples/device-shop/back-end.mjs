/**
 * The back end of a shop whose offers are made on its visitors' devices: static files, and tickets.
 *
 * `make client` first, then `node examples/device-shop/back-end.mjs` with the settings below in the environment. The
 * key stays in this process: all that a browser gets of it is a ticket, for one visit, for ten minutes.
 */

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { signTicket } from "../../clients/typescript/dist/tickets.js";

const { QUIETSHELF_URL: url, QUIETSHELF_OFFER_KEY: key, QUIETSHELF_SIGNING_KEY: signingKey } = process.env;
const { QUIETSHELF_SHELF: shelf = "teas", PORT: port = "8090" } = process.env;
if (!url || !key || !signingKey) throw new Error("QUIETSHELF_URL, _OFFER_KEY and _SIGNING_KEY must be set");

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css" };
// Scripts may reach this shop and the service; nothing may be framed, and the browser itself may send no form.
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; " +
  `frame-ancestors 'none'; connect-src 'self' ${url}`;
const HEADERS = { "Cache-Control": "no-store", "Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer" };
const ROUTES = {
  "/settings": () => JSON.stringify({ url, shelf, signingKey }),
  "/ticket": () => signTicket(key, { shelf }),
};

/** A file of the page, or of the client; nothing else has a name that fits. */
function fileOf(path) {
  const [, folder, name] = /^\/(client\/)?((?:device\/)?[a-z0-9-]+\.(?:html|js|css))$/.exec(path) ?? [];
  if (name === undefined) return undefined;
  return new URL(folder ? `../../clients/typescript/dist/${name}` : name, import.meta.url);
}

createServer(async (request, response) => {
  const path = request.url === "/" ? "/index.html" : (request.url ?? "");
  const file = fileOf(path);
  try {
    const body = file ? await readFile(file) : await ROUTES[path]();
    const type = file ? TYPES[path.split(".").pop()] : "text/plain";
    response.writeHead(200, { "Content-Type": type, ...HEADERS });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
}).listen(Number(port), "127.0.0.1", () => console.log(`the shop is open at http://127.0.0.1:${port}`));
