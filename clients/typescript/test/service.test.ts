/** The client against the real service, whose address and admin key are in `SERVICE_URL` and `SERVICE_KEY`. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, Refused, ServiceDown, type Item } from "@quietshelf/client";

const url = process.env["SERVICE_URL"] ?? "";
const key = process.env["SERVICE_KEY"] ?? "";
const SHELF = { rho: 4, capacity: 3, feature_map: "concat", visitor_dim: 2, window: 60, conversion: 0.21 };
const ITEMS: Item[] = Array.from({ length: 8 }, (_, n) => ({ id: `item ${n}`, features: [n % 3, (n % 5) / 2] }));

const refusal = (status: number, kind: string) => (error: unknown) =>
  error instanceof Refused && error.status === status && error.kind === kind;

test("a shelf is configured, stocked, offered from, answered and read", async () => {
  const shop = new Client(url, key);
  assert.equal(await shop.putShelf("teas", SHELF), true);
  assert.equal(await shop.putShelf("teas", SHELF), false);
  assert.deepEqual(await shop.putItems("teas", ITEMS), { added: 8, changed: 0 });
  const offer = await shop.offer("teas", [0.1, 0.2], { person: "anna" });
  assert.equal(offer.items.length, 3);
  assert.equal(offer.fallback, false);
  await shop.choose(offer, offer.items[0]!);
  await shop.choose(offer, offer.items[0]!);
  await assert.rejects(shop.choose(offer, null), refusal(409, "answer-conflict"));
  assert.equal(await shop.erase("teas", "anna"), 1);
  await shop.retire("teas", ["item 7"]);
  assert.match(String((await shop.privacy("teas"))["words"]), /Nothing has been released yet/);
  assert.deepEqual(await shop.releases("teas"), []);
  assert.equal((await shop.shelf("teas"))["arrivals"], 1);
  await assert.rejects(shop.offer("coffees", [1]), refusal(404, "not-found"));
});

test("any number of items is sent while it is made, and read back page by page", async () => {
  const shop = new Client(url, key);
  await shop.putShelf("jams", SHELF);
  async function* made(): AsyncGenerator<Item> {
    for (let n = 0; n < 1100; n++) yield { id: `new ${n}`, features: [0.5, n] };
  }
  assert.deepEqual(await shop.uploadItems("jams", made()), { added: 1100, changed: 0 });
  const names: string[] = [];
  for await (const item of shop.items("jams")) names.push(item.id);
  assert.deepEqual(names, Array.from({ length: 1100 }, (_, n) => `new ${n}`));
  const wrong = [{ id: "a", features: [1, 2] }, { id: "b", features: [1] }];
  await assert.rejects(shop.uploadItems("jams", wrong), /line 2: features must have length 2/);
  const many = Array.from({ length: 1001 }, (_, n) => ({ id: `new ${n}`, revenue: 2 }));
  assert.deepEqual(await shop.putItems("jams", many), { added: 0, changed: 1001 });
});

test("names that URL parsers resolve are refused before anything is sent", async () => {
  const shop = new Client(url, key);
  for (const name of [".", "..", ""]) await assert.rejects(shop.privacy(name), RangeError);
});

test("a service that is not there is down, and a wrong address is a mistake", async () => {
  const shop = new Client("http://127.0.0.1:1", key, { retry: { retries: 1, pause: 0.001 } });
  await assert.rejects(shop.offer("teas", [1]), ServiceDown);
  await assert.rejects(shop.uploadItems("teas", ITEMS), ServiceDown);
  assert.throws(() => new Client("127.0.0.1:8080", key), /url must start with http/);
  assert.throws(() => new Client(url, key, { retry: { fallback: ["tea"] } }), /fallbackCapacity must say/);
});

test("a service that does not answer in time is tried again, and then down", async () => {
  const { createServer } = await import("node:http");
  let asked = 0;
  const silent = createServer(() => void asked++).listen(0);
  const { port } = silent.address() as { port: number };
  const shop = new Client(`http://127.0.0.1:${port}`, key, { timeout: 0.05, retry: { retries: 1, pause: 0.001 } });
  await assert.rejects(shop.shelf("teas"), ServiceDown);
  assert.equal(asked, 2);
  silent.closeAllConnections();
  silent.close();
});
