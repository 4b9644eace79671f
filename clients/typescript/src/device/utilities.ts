/**
 * Utilities `x . theta + radius |x|` of every item, in the norm of the release's covariance; x is never formed.
 *
 * The order of every product and sum is part of what is computed: `model/choice/portable.py` has the same bits.
 */

import type { FeatureMap } from "./maps.js";

export interface Tastes {
  /** (d). */
  readonly theta: readonly number[];
  /** (d, d), row after row. */
  readonly covariance: Float64Array;
  readonly radius: number;
}

/** Of items (N), whose order says which effect each has. */
export function utilities(
  map: FeatureMap,
  visitor: readonly number[],
  items: readonly (readonly number[])[],
  tastes: Tastes,
): Float64Array {
  const slope = map.pull(visitor, Float64Array.from(tastes.theta), 1);
  const found = Float64Array.from(items, (item, index) => {
    const own = index < map.effects ? tastes.theta[map.dim - map.effects + index]! : 0;
    return dot(slope, item) + slope[0]! + own;
  });
  if (tastes.radius === 0) return found;
  const square = squares(map, visitor, items, tastes.covariance);
  return found.map((utility, index) => Math.sqrt(Math.max(square[index]!, 0)) * tastes.radius + utility);
}

/** `x' metric x` of every item. */
function squares(
  map: FeatureMap,
  visitor: readonly number[],
  items: readonly (readonly number[])[],
  metric: Float64Array,
): Float64Array {
  const { dim, effects, itemDim } = map;
  const width = 1 + itemDim;
  const form = map.pull(visitor, transposed(map.pull(visitor, metric, dim), width, dim), width);
  const square = Float64Array.from(items, (item) => {
    let sum = 0;
    for (let a = 1; a < width; a++) {
      let image = 0;
      for (let b = 1; b < width; b++) image += form[a * width + b]! * item[b - 1]!;
      sum += (image + (form[a]! + form[a * width]!)) * item[a - 1]!;
    }
    return sum + form[0]!;
  });
  const cross = effects > 0 ? map.pull(visitor, metric, dim) : square; // row by row: (1, v) with each place of x
  for (let index = 0; index < Math.min(effects, items.length); index++) {
    const place = dim - effects + index;
    let both = cross[place]!;
    for (let a = 1; a < width; a++) both += cross[a * dim + place]! * items[index]![a - 1]!;
    square[index]! += 2 * both + metric[place * dim + place]!;
  }
  return square;
}

function dot(slope: Float64Array, item: readonly number[]): number {
  let sum = 0;
  for (let a = 0; a < item.length; a++) sum += slope[a + 1]! * item[a]!;
  return sum;
}

/** A matrix of so many rows and columns, as columns of so many rows. */
function transposed(matrix: Float64Array, rows: number, columns: number): Float64Array {
  const out = new Float64Array(rows * columns);
  for (let a = 0; a < rows; a++) for (let b = 0; b < columns; b++) out[b * rows + a] = matrix[a * columns + b]!;
  return out;
}
