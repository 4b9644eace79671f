/** Offers on the device, from the real service: `SERVICE_URL`, `SERVICE_KEY`, a shelf `teas` and its `SIGNING_KEY`. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { DeviceShelf, Refused, ServiceDown, Untrusted } from "@quietshelf/client/device";
import { signTicket } from "@quietshelf/client/tickets";

const url = process.env["SERVICE_URL"] ?? "";
const key = process.env["SERVICE_KEY"] ?? "";
const signingKey = process.env["SIGNING_KEY"] ?? "";
const ticket = () => signTicket(key, { shelf: "teas" });

/** Everything that is fetched while something is done. */
async function traffic(work: () => Promise<void>): Promise<{ url: string; init: RequestInit }[]> {
  const seen: { url: string; init: RequestInit }[] = [];
  const real = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    seen.push({ url: String(input), init: init ?? {} });
    return real(input, init);
  };
  try {
    await work();
  } finally {
    globalThis.fetch = real;
  }
  return seen;
}

test("an offer is made here, answered once, and its documents are fetched once", async () => {
  const shelf = new DeviceShelf(url, "teas", { ticket, signingKey });
  const features = [12345.678, -8765.4321];
  const seen = await traffic(async () => {
    const offer = await shelf.offer(features);
    assert.equal(offer.items.length, 3);
    await offer.choose(offer.items[1]!);
    await offer.choose(null); // the first answer stands, and nothing more is sent
    const other = await shelf.offer(features, { exclude: ["item 1"], capacity: 2 });
    assert.equal(other.items.length, 2);
    assert.ok(!other.items.includes("item 1"));
    await assert.rejects(other.choose("item 1"), /must be one of those shown/);
    await other.choose(null);
  });
  const kinds = seen.map((each) => each.url.split("/").slice(-2)[0]);
  assert.deepEqual(kinds.filter((kind) => kind === "models" || kind === "catalogues" || kind === "batches").sort(), [
    "batches",
    "catalogues",
    "models",
  ]);
  assert.equal(seen.length, 7);
  const sent = JSON.stringify(seen.map((each) => [each.url, each.init.body, [...(each.init.headers as Headers)]]));
  for (const secret of ["12345", "8765", "item"]) assert.ok(!sent.includes(secret), secret);
  const alone = ({ init }: { init: RequestInit }): unknown[] => [init.credentials, init.referrerPolicy, init.redirect];
  assert.deepEqual(new Set(seen.map((each) => String(alone(each)))), new Set(["omit,no-referrer,manual"]));
});

/** A page that can be left. */
async function onPage(work: (leave: () => void) => Promise<void>): Promise<void> {
  const page = new EventTarget();
  const window = globalThis as unknown as { addEventListener?: unknown; removeEventListener?: unknown };
  window.addEventListener = page.addEventListener.bind(page);
  window.removeEventListener = page.removeEventListener.bind(page);
  try {
    await work(() => page.dispatchEvent(new Event("pagehide")));
  } finally {
    delete window.addEventListener;
    delete window.removeEventListener;
  }
}

/** Which ticket each request had, and what it asked for. */
function asked(seen: { url: string; init: RequestInit }[]): [string, string][] {
  return seen.map((each) => [(each.init.headers as Headers).get("Authorization") ?? "", each.url.split("/").pop() ?? ""]);
}

test("however often it asks, a visitor is one visit until it answers", async () => {
  const shelf = new DeviceShelf(url, "teas", { ticket, signingKey });
  await onPage(async (leave) => {
    const [one, two] = await Promise.all([shelf.offer([1, 2]), shelf.offer([-2, 1])]); // as by a double click
    const three = await shelf.offer([0.5, 1]);
    assert.deepEqual([two.id, three.id], [one.id, one.id]);
    await assert.rejects(one.choose(one.items[0]!), /has replaced this one/);
    const seen = await traffic(async () => leave());
    assert.deepEqual(seen.map((each) => each.url), [`${url}/v1/offers/${three.id}/contribution`]);
    await three.choose(null); // what has gone is waited for
    const next = await shelf.offer([1, 2]);
    assert.notEqual(next.id, three.id);
    await next.choose(null);
  });
});

test("a visit whose ticket has expired gets another one, once", async () => {
  const shelf = new DeviceShelf(url, "teas", { ticket, signingKey });
  const first = await shelf.offer([1, 2]);
  const real = globalThis.fetch;
  let refusals = 0;
  globalThis.fetch = (input, init) => {
    if (!String(input).endsWith("/slots") || refusals === 3) return real(input, init);
    refusals++;
    return Promise.resolve(Response.json({ type: "urn:quietshelf:problem:unauthorised" }, { status: 401 }));
  };
  try {
    const refused = await traffic(() => assert.rejects(shelf.offer([1, 2]), Refused));
    assert.equal(new Set(asked(refused).map(([authorization]) => authorization)).size, 2);
    await assert.rejects(shelf.offer([1, 2]), Refused); // a ticket that never worked is not asked for again at once
    assert.equal(refusals, 3);
    const later = await shelf.offer([1, 2]);
    assert.notEqual(later.id, first.id);
    await assert.rejects(first.choose(null), /has replaced this one/);
    await later.choose(null);
  } finally {
    globalThis.fetch = real;
  }
});

test("a ticket used twice is one visit", async () => {
  const same = await ticket();
  const shelf = (): DeviceShelf => new DeviceShelf(url, "teas", { ticket: () => same, signingKey }); // as in two tabs
  const [one, two] = [await shelf().offer([1, 2]), await shelf().offer([1, 2])];
  assert.deepEqual([one.id, one.items], [two.id, two.items]);
  await one.choose(one.items[0]!);
  await assert.rejects(two.choose(null), (error) => error instanceof Refused && error.kind === "answer-conflict");
});

test("documents that somebody else signed are refused", async () => {
  const wrong = signingKey.replace(/^./, (letter) => (letter === "A" ? "B" : "A"));
  const shelf = new DeviceShelf(url, "teas", { ticket, signingKey: wrong });
  await assert.rejects(shelf.offer([1, 2]), Untrusted);
});

test("whoever leaves has chosen nothing, and says so", async () => {
  await onPage(async (leave) => {
    const shelf = new DeviceShelf(url, "teas", { ticket, signingKey });
    const offer = await shelf.offer([1, 2]);
    const seen = await traffic(async () => {
      leave();
      leave();
      await offer.choose(offer.items[0]!);
    });
    assert.deepEqual(seen.map((each) => [each.url, each.init.keepalive]), [[`${url}/v1/offers/${offer.id}/contribution`, true]]);
  });
});

test("an answer that got lost is sent again, and no other in its place", async () => {
  const shelf = new DeviceShelf(url, "teas", { ticket, signingKey, retry: { retries: 0 } });
  const offer = await shelf.offer([1, 2]);
  const real = globalThis.fetch;
  const lost: unknown[] = [];
  globalThis.fetch = (_, init) => {
    lost.push(init?.body);
    return Promise.reject(new TypeError("no network"));
  };
  try {
    await assert.rejects(offer.choose(offer.items[0]!), ServiceDown);
  } finally {
    globalThis.fetch = real;
  }
  const seen = await traffic(async () => {
    await offer.choose(null);
    await offer.choose(null);
  });
  assert.deepEqual(seen.map((each) => each.init.body), lost);
});

test("documents of another edition are refused", async () => {
  const shelf = new DeviceShelf(url, "teas", { ticket, signingKey });
  const real = globalThis.fetch;
  globalThis.fetch = async (input, init) => {
    const reply = await real(input, init);
    if (!String(input).endsWith("/slots")) return reply;
    return Response.json({ ...((await reply.json()) as object), edition: "before" });
  };
  try {
    await assert.rejects(shelf.offer([1, 2]), /got another version/);
  } finally {
    globalThis.fetch = real;
  }
});

test("without a service chance chooses, and nothing is sent", async () => {
  const retry = { retries: 0, fallback: ["a", "b", "c"], fallbackCapacity: 2 };
  const shelf = new DeviceShelf("http://127.0.0.1:1", "teas", { ticket, signingKey, retry });
  const offer = await shelf.offer([1, 2], { exclude: ["c"] });
  assert.deepEqual([offer.fallback, [...offer.items].sort()], [true, ["a", "b"]]);
  assert.deepEqual(await traffic(() => offer.choose("a")), []);
  await assert.rejects(shelf.offer([NaN]), /features must be finite/);
});

test("a ticket is valid for whole seconds, an hour at most", async () => {
  for (const seconds of [0, 0.5, 600.5, 3601, NaN]) {
    await assert.rejects(signTicket(key, { shelf: "teas", seconds }), /seconds must be a whole number from 1 to 3600/);
  }
});

test("a page that the service may not know of is told what to check", async () => {
  const page = globalThis as unknown as { location?: unknown };
  const real = globalThis.fetch;
  globalThis.fetch = () => Promise.reject(new TypeError("Failed to fetch")); // all that a browser says
  const said = async (origin: string): Promise<string> => {
    page.location = { origin };
    const shelf = new DeviceShelf("https://shelf.example", "teas", { ticket: () => "x.y", signingKey, retry: { retries: 0 } });
    return shelf.offer([1, 2]).then(() => "", (error: unknown) => (error instanceof ServiceDown ? error.message : ""));
  };
  try {
    assert.match(await said("https://shop.example"), /Failed to fetch; if it is up.*`origins`.*https:\/\/shop\.example/);
    assert.match(await said("https://shelf.example"), /Failed to fetch$/);
  } finally {
    globalThis.fetch = real;
    delete page.location;
  }
});
