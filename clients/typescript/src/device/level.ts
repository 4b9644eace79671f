/**
 * The expected revenue z of a set to more digits than a double has, and the scores `w (r - z)` it gives.
 *
 * `z = high + low x 2^shift`. The digits matter: the revenue of a shown item of weight w agrees with z to about 1 part
 * in w, so its score hangs on the digits of r - z from there on. Sums go from the first place to the last: `model/assortment/level.py` has the same bits.
 */

import { exp2, frexp } from "./exponential.js";
import type { Pick } from "./rules.js";
import { LARGEST_ORDINARY, type Weights } from "./weights.js";

const WIDEST = 1800; // powers of two between the largest and the smallest score that doubles can hold side by side
const FAINTEST = -900; // rises below 2^-900 count as that: their sign is what matters

export interface Level {
  readonly high: number;
  readonly low: number;
  readonly shift: number;
}

/** `w (r - z)` of every item or, where that could overflow, numbers of like sign and like order. */
export function scores({ fraction, exponent }: Weights, revenue: Float64Array, level: Level): Float64Array {
  const { high, low, shift } = level;
  if (exponent === undefined) return revenue.map((earned, item) => (earned - high - low) * fraction[item]!);
  const power = exponent.slice();
  const product = revenue.map((earned, item) => {
    const even = earned - high === 0;
    if (even) power[item]! += shift;
    return fraction[item]! * (even ? -low : earned - high - low * exp2(shift));
  });
  return ordered(product, power);
}

/** The expected revenue of what is kept. */
export function expected({ fraction, exponent }: Weights, revenue: Float64Array, { places, kept }: Pick): Level {
  const earned = places.map((place) => revenue[place]!);
  const part = places.map((place, index) => (kept[index] ? fraction[place]! : 0));
  if (exponent !== undefined) {
    return expectedFar(part, places.map((place, index) => (part[index]! > 0 ? exponent[place]! : 0)), earned);
  }
  const total = 1 + sum(part);
  const high = dot(part, earned) / total;
  const low = (dot(part, earned.map((each) => each - high)) - high) / total;
  return { high, low, shift: 0 };
}

/** How far `now` lies above `old`; of the right sign even where the difference is too small for a double. */
export function rise(now: Level, old: Level, ordinary: boolean): number {
  if (ordinary) return now.high - old.high + (now.low - old.low);
  const top = Math.max(now.shift, old.shift);
  const apart = now.low * exp2(now.shift - top) - old.low * exp2(old.shift - top);
  return now.high - old.high + apart * exp2(now.high === old.high ? Math.max(top, FAINTEST) : top);
}

function expectedFar(part: readonly number[], power: readonly number[], earned: readonly number[]): Level {
  const largest = Math.max(0, ...power);
  const mass = part.map((each, index) => each * exp2(power[index]! - largest));
  const total = exp2(-largest) + sum(mass);
  let high = dot(mass, earned) / total;
  let [low, near] = residual(part, power, earned, high);
  // beside a large weight z must be rounded correctly first, or its error would swamp what is left
  high += largest > LARGEST_ORDINARY + 1 ? (low / total) * exp2(near - largest) : 0;
  [low, near] = residual(part, power, earned, high);
  return { high, low: low / total, shift: near - largest };
}

/** `sum w (r - high) - high` as fraction and exponent. */
function residual(
  part: readonly number[],
  power: readonly number[],
  earned: readonly number[],
  high: number,
): [number, number] {
  const gap = earned.map((each) => each - high);
  const counts = gap.map((each, index) => each !== 0 && part[index]! > 0);
  let near = Math.max(high === 0 ? -Infinity : 0, ...power.filter((_, index) => counts[index]));
  if (near === -Infinity) near = 0;
  const mass = part.map((each, index) => (counts[index] ? each * exp2(Math.min(power[index]! - near, 0)) : 0));
  return [dot(mass, gap) - high * exp2(-Math.max(near, 0)), near];
}

/** `product x 2^exponent`, divided by a power of two, or its signed ranks if no such power will do. */
function ordered(product: Float64Array, exponent: Float64Array): Float64Array {
  const size = new Float64Array(product.length);
  const power = new Float64Array(product.length);
  let top = -Infinity;
  let bottom = Infinity;
  for (const [item, value] of product.entries()) {
    const [fraction, own] = frexp(value);
    size[item] = fraction;
    if (value === 0) continue;
    power[item] = own + exponent[item]!;
    top = Math.max(top, power[item]!);
    bottom = Math.min(bottom, power[item]!);
  }
  if (top - bottom > WIDEST) return signedRank(size, power);
  return size.map((each, item) => (each === 0 ? each : each * exp2(power[item]! - top + WIDEST / 2)));
}

/** The sign of `size x 2^power` times the dense rank (from 1) of its magnitude. */
function signedRank(size: Float64Array, power: Float64Array): Float64Array {
  const length = size.map(Math.abs);
  const order = [...size.keys()].sort((a, b) => power[a]! - power[b]! || length[a]! - length[b]!);
  const rank = new Float64Array(size.length);
  let last = 0;
  for (const [place, item] of order.entries()) {
    const before = order[place - 1];
    const larger = before === undefined || length[item] !== length[before] || power[item] !== power[before];
    if (larger) last++;
    rank[item] = last * Math.sign(size[item]!);
  }
  return rank;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}

function dot(one: readonly number[], other: readonly number[]): number {
  return one.reduce((total, each, index) => total + each * other[index]!, 0);
}
