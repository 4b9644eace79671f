/** Finds the best assortment at given utilities, with ties broken by the slot's coins. */

import type { Rules } from "./rules.js";
import { solve } from "./solver.js";

const LARGEST = 1e290; // larger utilities count as this; such items cannot be told apart anyway
const JITTER = 1e-12; // size of the random part of a utility, relative to the largest of the visitor

/** The places of the items to show, ascending; `order` holds the coins. */
export function decide(
  utility: Float64Array,
  revenue: Float64Array,
  rules: Rules,
  order: Float64Array,
): number[] {
  let size = 1;
  for (const each of utility) size = Math.max(size, Math.abs(each)); // NaN if one of them is
  const tame = size <= LARGEST;
  const step = JITTER * (tame ? size : 1); // even visitors whose utilities overflow get an offer
  return solve(utility.map((each, item) => (tame ? each : clipped(each)) + step * order[item]!), revenue, rules);
}

function clipped(value: number): number {
  return Number.isNaN(value) ? -LARGEST : Math.min(Math.max(value, -LARGEST), LARGEST);
}
