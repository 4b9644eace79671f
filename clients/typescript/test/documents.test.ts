/** What Python says of documents, tickets and signatures, in `DOCUMENTS`: the same is chosen, signed and believed here. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { choose, contribution, opened, Untrusted, type Batch, type Catalogue, type Model } from "@quietshelf/client/device";
import { signed, type TicketFields } from "@quietshelf/client/tickets";

const { checkBatch } = (await import(
  new URL("../../dist/device/envelope.js", import.meta.url).href
)) as typeof import("../dist/device/envelope.js");

interface Choice {
  readonly model: number;
  readonly catalogue: number;
  readonly visitor: number[];
  readonly capacity: number;
  readonly fill: boolean;
  readonly candidates: string[] | null;
  readonly exclude: string[];
  readonly coins: string;
  readonly normals: number[] | null;
  readonly items: string[];
}

const told = JSON.parse(readFileSync(process.env["DOCUMENTS"] ?? "", "utf8")) as {
  models: Model[];
  catalogues: Catalogue[];
  batches: Batch[];
  choices: Choice[];
  contributions: { batch: number; shown: number[][]; chosen: number; score: number[]; rows: number[][] }[];
  tickets: (Omit<TicketFields, "person"> & { key: string; person: string | null; ticket: string })[];
  signatures: { key: string; signed: string; signature: string }[];
};

test("the chosen items are equal", () => {
  for (const each of told.choices) {
    const catalogue = told.catalogues[each.catalogue]!;
    const { candidates, exclude } = each;
    const wishes = { exclude, ...(candidates === null ? {} : { candidates }) };
    const places = choose(told.models[each.model]!, catalogue, each.visitor, each, wishes);
    assert.deepEqual(places.map((place) => catalogue.ids[place]), each.items);
  }
});

test("wishes that the service would refuse are refused", () => {
  const [each] = told.choices;
  assert.ok(each !== undefined);
  const [model, catalogue] = [told.models[each.model]!, told.catalogues[each.catalogue]!];
  const slot = { ...each, capacity: 3 };
  const [one] = catalogue.ids;
  assert.ok(one !== undefined);
  for (const capacity of [0, -1, 1.5, NaN, Infinity, 4]) {
    assert.throws(() => choose(model, catalogue, each.visitor, slot, { capacity }), /capacity must be between 1 and/);
  }
  for (const wish of ["candidates", "required", "exclude"]) {
    assert.throws(() => choose(model, catalogue, each.visitor, slot, { [wish]: [one, one] }), /at most once/);
    assert.throws(() => choose(model, catalogue, each.visitor, slot, { [wish]: ["toString"] }), /must name items of the shelf/);
  }
});

test("a batch is computed with only if what comes of it is bounded and rounded", () => {
  for (const batch of told.batches) checkBatch(batch, batch.theta.length);
  const [batch] = told.batches;
  assert.ok(batch !== undefined);
  const dim = batch.theta.length;
  assert.throws(() => checkBatch(batch, dim + 1), Untrusted);
  assert.throws(() => checkBatch({ ...batch, coordinates: batch.coordinates.slice(1) }, dim), Untrusted);
  for (const [name, values] of Object.entries({ bound: [0, 1e-7, 1e7, NaN, -1], score_grid: [0, 0.3, NaN, -0.5], row_grid: [0, 3, Infinity] })) {
    for (const value of values) assert.throws(() => checkBatch({ ...batch, [name]: value }, dim), Untrusted, `${name}=${value}`);
  }
});

test("contributions are equal to one step of the grid", () => {
  let moved = 0;
  for (const each of told.contributions) {
    const batch = told.batches[each.batch]!;
    const found = contribution(each.shown.map((row) => Float64Array.from(row)), each.chosen, batch);
    const numbers = [...found.score, ...found.rows.flat()];
    const expected = [...each.score, ...each.rows.flat()];
    assert.equal(numbers.length, expected.length);
    for (const [place, value] of expected.entries()) {
      const grid = place < each.score.length ? batch.score_grid : batch.row_grid;
      if (numbers[place] !== value) moved++;
      assert.ok(Math.abs(numbers[place]! - value) <= grid);
    }
  }
  console.log(`# ${moved} numbers lie on the other side of a rounding boundary`);
  assert.ok(moved <= told.contributions.length / 100);
});

test("tickets have the same text", async () => {
  for (const { key, ticket, person, ...fields } of told.tickets) {
    assert.equal(await signed(key, { ...fields, person: person ?? undefined }), ticket);
  }
});

test("what Python signed is believed, and nothing else", async () => {
  const [first] = told.signatures;
  assert.ok(first !== undefined);
  const { key, ...envelope } = first;
  assert.equal((await opened(envelope, "model", "teas", key)).kind, "model");
  const swapped = { ...envelope, signed: envelope.signed.replace("0.", "1.") };
  const other = told.signatures[1]!;
  for (const [sent, with_] of [
    [swapped, key],
    [{ ...envelope, signature: other.signature }, key],
    [envelope, other.key],
    [envelope, "not a key"],
    [{ signed: envelope.signed }, key],
  ] as const) {
    await assert.rejects(opened(sent, "model", "teas", with_), Untrusted);
  }
  await assert.rejects(opened(envelope, "catalogue", "teas", key), Untrusted);
  await assert.rejects(opened(envelope, "model", "jams", key), Untrusted);
  const slower = { ...envelope, signed: envelope.signed.replace('"jitter":1e-12', '"jitter":1e-9') };
  await assert.rejects(opened(slower, "model", "teas", null), /jitter must be/);
});
