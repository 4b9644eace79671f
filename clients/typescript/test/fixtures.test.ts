/** Offers and contributions computed here are those that Python computed: `FIXTURES` names the file it wrote. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { choose, Coins, contribution, rowsOf, type Catalogue, type Frozen, type Model, type Slot } from "@quietshelf/client/device";

const TIED = ["ties", "near ties", "equal", "indifferent"];
const OUT_OF_RANGE = ["overflow", "denormal"];

/** A module of the client that the package does not export. */
const inside = (name: string): Promise<unknown> => import(new URL(`../../dist/device/${name}.js`, import.meta.url).href);
const { exp } = (await inside("exponential")) as typeof import("../dist/device/exponential.js");
const { mapOf } = (await inside("envelope")) as typeof import("../dist/device/envelope.js");
const { utilities } = (await inside("utilities")) as typeof import("../dist/device/utilities.js");

interface World {
  readonly kind: string;
  readonly model: Model;
  readonly catalogue: Catalogue;
  readonly visits: Visit[];
}

interface Visit extends Slot {
  readonly visitor: number[];
  readonly candidates: string[] | null;
  readonly required: string[];
  /** In place of the catalogue's. */
  readonly revenue: number[] | null;
  readonly items: number[];
  /** Whether Python's faster sums, which depend on the processor, lead to the same items. */
  readonly served: boolean;
  readonly utilities: string;
  /** As Python writes numbers: JSON has no infinity. */
  readonly rows: string[][];
}

interface Contributed {
  readonly batch: Frozen;
  readonly shown: number[][];
  readonly chosen: number;
  readonly score: number[];
  readonly rows: number[][];
}

const number = (text: string): number => Number(text.replace("inf", "Infinity")) + 0; // minus zero is zero

const fixtures = JSON.parse(readFileSync(process.env["FIXTURES"] ?? "", "utf8")) as {
  worlds: World[];
  exp: { of: number[]; is: string };
  contributions: Contributed[];
  coins: { coins: string; uniforms: number[] }[];
};

test("coins have the same bits", () => {
  for (const { coins, uniforms } of fixtures.coins) assert.deepEqual([...new Coins(coins).uniform(9)], uniforms);
});

/** Of the bits of numbers; what is not a number, and minus zero, have many. */
function digest(numbers: Float64Array): string {
  const bytes = new DataView(new ArrayBuffer(8 * numbers.length));
  numbers.forEach((each, place) => bytes.setFloat64(8 * place, Number.isNaN(each) ? NaN : each + 0, true));
  return createHash("sha256").update(bytes).digest("hex");
}

test("exp has the same bits", () => {
  assert.equal(digest(Float64Array.from(fixtures.exp.of, exp)), fixtures.exp.is);
});

test("utilities have the same bits", () => {
  for (const { kind, model, catalogue, visits } of fixtures.worlds) {
    const tastes = { theta: model.theta, covariance: Float64Array.from(model.covariance.flat()), radius: model.radius };
    for (const { visitor, utilities: told } of visits) {
      assert.equal(digest(utilities(mapOf(model), visitor, catalogue.features, tastes)), told, kind);
    }
  }
});

test("the chosen sets are equal, every one", () => {
  const count: Record<string, { cases: number; otherwise: number }> = {};
  for (const { kind, model, catalogue, visits } of fixtures.worlds) {
    const seen = (count[kind] ??= { cases: 0, otherwise: 0 });
    for (const each of visits) {
      const wishes = { required: each.required, ...(each.candidates === null ? {} : { candidates: each.candidates }) };
      const found = choose(model, { ...catalogue, revenue: each.revenue ?? catalogue.revenue }, each.visitor, each, wishes);
      assert.deepEqual(found, each.items, `${kind}: ${JSON.stringify({ model, catalogue, each })}`);
      const rows = rowsOf(model, catalogue, each.visitor, each.items);
      assert.deepEqual(rows.map((row) => Array.from(row, (x) => x + 0)), each.rows.map((row) => row.map(number)));
      seen.cases++;
      if (!each.served) seen.otherwise++;
    }
  }
  console.log(`# sets that sums in another order would have chosen otherwise: ${JSON.stringify(count)}`);
  // What the service's own sums lead to: the same, unless products overflow or vanish, or the last bit decides a tie.
  let tied = 0;
  for (const [kind, { otherwise }] of Object.entries(count)) {
    if (TIED.includes(kind)) tied += otherwise;
    else if (!OUT_OF_RANGE.includes(kind)) assert.equal(otherwise, 0, kind);
  }
  assert.ok(tied <= 2);
});

test("contributions are equal, but for numbers that lie halfway between two multiples of the grid", () => {
  let moved = 0;
  let numbers = 0;
  for (const each of fixtures.contributions) {
    const found = contribution(each.shown.map((row) => Float64Array.from(row)), each.chosen, each.batch);
    const pairs = [
      ...each.score.map((told, a) => [found.score[a]!, told, each.batch.score_grid] as const),
      ...each.rows.flatMap((row, j) => row.map((told, a) => [found.rows[j]![a]!, told, each.batch.row_grid] as const)),
    ];
    assert.equal(found.score.length, each.score.length);
    assert.equal(found.rows.length, each.rows.length);
    for (const [mine, told, grid] of pairs) {
      numbers++;
      if (mine === told) continue;
      moved++;
      assert.equal(Math.abs(mine - told), grid);
    }
  }
  console.log(`# ${moved} of ${numbers} numbers lie on the other side of a rounding boundary`);
  assert.ok(moved <= 2); // errors are some 1e-14, the finest grid 1e-9: expect one number in a million
});
