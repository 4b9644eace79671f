/** Chooses what to show one visitor, from the service's documents and the visitor's own features. */

import type { OfferOptions } from "../calls.js";
import { Coins } from "./coins.js";
import { decide } from "./decide.js";
import { mapOf, type Catalogue, type Model } from "./envelope.js";
import type { Rules } from "./rules.js";
import { utilities } from "./utilities.js";

/** What comes with a slot, beside its id. */
export interface Slot {
  readonly capacity: number;
  readonly fill: boolean;
  /** 16 bytes in hexadecimal: the key of the slot's own generator. */
  readonly coins: string;
  /** Standard normal numbers (d), if tastes are drawn for each visitor. */
  readonly normals: readonly number[] | null;
}

/** How a shop may narrow an offer; `capacity` is at most the shelf's. */
export type Wishes = Pick<OfferOptions, "candidates" | "required" | "exclude" | "capacity">;

/** The items to show, as places in the catalogue, ascending. */
export function choose(
  model: Model,
  catalogue: Catalogue,
  visitor: readonly number[],
  slot: Slot,
  wishes: Wishes = {},
): number[] {
  const map = mapOf(model);
  if (visitor.length !== map.visitorDim || !visitor.every(Number.isFinite)) {
    throw new RangeError(`features must be ${map.visitorDim} finite numbers, got features=[${visitor}]`);
  }
  const tastes = { theta: tastesOf(model, slot.normals), covariance: flat(model.covariance), radius: model.radius };
  const rules = rulesOf(catalogue, slot, wishes);
  const utility = utilities(map, visitor, catalogue.features, tastes);
  const coins = new Coins(slot.coins).uniform(catalogue.ids.length);
  return decide(utility, Float64Array.from(catalogue.revenue), rules, coins);
}

/** The vectors x of these items, as this visitor sees them. */
export function rowsOf(
  model: Model,
  catalogue: Catalogue,
  visitor: readonly number[],
  places: readonly number[],
): Float64Array[] {
  const map = mapOf(model);
  return places.map((place) => map.row(visitor, catalogue.features[place]!, place));
}

function rulesOf({ ids, offerable }: Catalogue, slot: Slot, wishes: Wishes): Rules {
  const { candidates, required = [], exclude = [], capacity = slot.capacity } = wishes;
  const known = new Set(ids);
  const wanted = candidates === undefined ? known : named("candidates", candidates, known);
  const [needed, barred] = [named("required", required, known), named("exclude", exclude, known)];
  const available = ids.map((id, place) => offerable[place] === true && wanted.has(id) && !barred.has(id));
  const lacking = ids.find((id, place) => needed.has(id) && !available[place]);
  if (lacking !== undefined) throw new RangeError(`required items must be available, got ${JSON.stringify(lacking)}`);
  if (!Number.isInteger(capacity) || capacity < 1 || capacity > slot.capacity) {
    throw new RangeError(`capacity must be between 1 and the shelf's capacity=${slot.capacity}, got capacity=${capacity}`);
  }
  const most = Math.min(capacity, ids.length);
  if (needed.size > most) throw new RangeError(`required must name at most ${most} items, got ${needed.size}`);
  return { capacity: most, exactly: slot.fill, available, required: ids.map((id) => needed.has(id)) };
}

/** Checks that the items are known and named once. */
function named(wish: string, items: readonly string[], known: ReadonlySet<string>): ReadonlySet<string> {
  const found = new Set<string>();
  for (const id of items) {
    if (!known.has(id)) throw new RangeError(`${wish} must name items of the shelf, got ${JSON.stringify(id)}`);
    if (found.has(id)) throw new RangeError(`${wish} must name each item at most once, got ${JSON.stringify(id)} again`);
    found.add(id);
  }
  return found;
}

/** Tastes drawn for this visitor if the model says so, `theta + draws root normals`; else theta. */
function tastesOf({ theta, draws, root }: Model, normals: readonly number[] | null): readonly number[] {
  if (draws === 0 || root === null || normals === null) return theta;
  return theta.map((taste, a) => {
    const away = root[a]!.reduce((sum, each, b) => sum + normals[b]! * each, 0);
    return taste + draws * away;
  });
}

function flat(matrix: readonly (readonly number[])[]): Float64Array {
  return Float64Array.from(matrix.flat());
}
