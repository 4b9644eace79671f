/** What one visitor is shown: the best assortment at given utilities, ties broken by the slot's own coins. */

import type { Rules } from "./rules.js";
import { solve } from "./solver.js";

const LARGEST = 1e290; // utilities beyond are taken for this; nobody can tell such items apart anyway
const JITTER = 1e-12; // size of the random part of a utility, relative to the largest of the visitor

/** Places of the items to show, ascending; `order` holds the coins. */
export function decide(
  utility: Float64Array,
  revenue: Float64Array,
  rules: Rules,
  order: Float64Array,
): number[] {
  let size = 1;
  for (const each of utility) size = Math.max(size, Math.abs(each)); // not a number if one is none
  const tame = size <= LARGEST;
  const step = JITTER * (tame ? size : 1); // features so large that utilities overflow: they are served all the same
  return solve(utility.map((each, item) => (tame ? each : clipped(each)) + step * order[item]!), revenue, rules);
}

function clipped(value: number): number {
  return Number.isNaN(value) ? -LARGEST : Math.min(Math.max(value, -LARGEST), LARGEST);
}
