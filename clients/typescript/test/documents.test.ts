/** What Python says of documents, tickets and signatures, in `DOCUMENTS`: the same is chosen, signed and believed here. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { choose, contribution, opened, Untrusted, type Batch, type Catalogue, type Model } from "@quietshelf/client/device";
import { signed, type TicketFields } from "@quietshelf/client/tickets";

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
