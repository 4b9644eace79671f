/** What to show one visitor, computed from what the service published and from the visitor's own features. */

import { Coins } from "./coins.js";
import { decide } from "./decide.js";
import { mapOf, type Catalogue, type Model } from "./envelope.js";
import type { Rules } from "./rules.js";
import { utilities } from "./utilities.js";

/** What the service gave with a slot, beside its name. */
export interface Slot {
  readonly capacity: number;
  readonly fill: boolean;
  /** 16 bytes in hexadecimal: the key of the slot's own generator. */
  readonly coins: string;
  /** Standard normal numbers (d), where tastes are drawn for each visitor. */
  readonly normals: readonly number[] | null;
}

/** What the shop may narrow an offer to. */
export interface Wishes {
  readonly candidates?: readonly string[];
  readonly required?: readonly string[];
  readonly exclude?: readonly string[];
  /** At most the shelf's. */
  readonly capacity?: number;
}

/** Places in the catalogue of the items to show, ascending. */
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
  const { candidates = ids, required = [], exclude = [] } = wishes;
  const [wanted, needed, barred] = [new Set(candidates), new Set(required), new Set(exclude)];
  const known = new Set(ids);
  for (const id of [...candidates, ...required, ...exclude]) {
    if (!known.has(id)) throw new RangeError(`items must be known to the shelf, got ${JSON.stringify(id)}`);
  }
  const available = ids.map((id, place) => offerable[place] === true && wanted.has(id) && !barred.has(id));
  const lacking = ids.find((id, place) => needed.has(id) && !available[place]);
  if (lacking !== undefined) throw new RangeError(`required items must be available, got ${JSON.stringify(lacking)}`);
  const capacity = Math.min(wishes.capacity ?? slot.capacity, slot.capacity, ids.length);
  if (needed.size > capacity) throw new RangeError(`required must name at most ${capacity} items, got ${needed.size}`);
  return { capacity, exactly: slot.fill, available, required: ids.map((id) => needed.has(id)) };
}

/** Tastes drawn for this visitor where the model asks for that, `theta + draws root normals`; else theta. */
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
