/**
 * The assortment with the largest expected revenue, exactly.
 *
 * Where all items earn the same these are the best sellers. Else Newton's method finds it in a handful of sweeps: the
 * best expected revenue z* is the root of `max over sets of sum w (r - z) - z`; each sweep takes the best set at the
 * present z and moves z to that set's own expected revenue, which can only grow; when it no longer grows, it is z*.
 */

import { expected, rise, scores, type Level } from "./level.js";
import { confirms, pick, restrict, type Pick, type Rules } from "./rules.js";
import { guess, weigh, type Weights } from "./weights.js";

/** Places of the items to show, ascending, at utilities within ±1e300 and revenues within ±1e150. */
export function solve(utility: Float64Array, revenue: Float64Array, rules: Rules): number[] {
  const { places, kept } = equalRevenue(revenue)
    ? pick(rules, restrict(rules, utility.slice()), -Infinity)
    : maximise(weigh(utility), revenue, rules);
  return places.filter((_, index) => kept[index]);
}

/** Whether all items earn the same, and more than nothing. */
function equalRevenue(revenue: Float64Array): boolean {
  return revenue[0]! > 0 && revenue.every((each) => each === revenue[0]);
}

function maximise(weights: Weights, revenue: Float64Array, rules: Rules): Pick {
  const take = (level: Level): Pick => pick(rules, restrict(rules, scores(weights, revenue, level)), 0);
  const start = guess(weights, revenue, Math.sqrt(rules.capacity), rules.available); // any will do; this one saves sweeps
  let now = take({ high: start, low: 0, shift: 0 });
  let level = expected(weights, revenue, now);
  for (;;) {
    const score = restrict(rules, scores(weights, revenue, level));
    if (confirms(rules, score, now)) return now;
    const next = pick(rules, score, 0);
    const higher = expected(weights, revenue, next);
    const up = rise(higher, level, weights.exponent === undefined);
    if (up >= 0) [now, level] = [next, higher]; // an equal set replaces the last one: ties prefer it
    if (!(up > 0)) return now;
  }
}
