/**
 * Attraction weights `exp(utility)` that neither overflow nor vanish: fraction x 2^exponent.
 *
 * Ordinary weights are kept as they are. As soon as one number leaves the ordinary range, all are split.
 */

import { exp, exp2, frexp, LN2, rint } from "./exponential.js";

const ORDINARY_EXPONENT = 33;
const LOW = -300;
const HIGH = ORDINARY_EXPONENT * LN2;

export interface Weights {
  readonly fraction: Float64Array;
  /** Undefined where weights are ordinary. */
  readonly exponent: Float64Array | undefined;
}

/** Largest weights, as exponents, beside which one correction of an expected revenue is enough. */
export const LARGEST_ORDINARY = ORDINARY_EXPONENT;

/** Of utilities within ±1e300. */
export function weigh(utility: Float64Array): Weights {
  const ordinary = (value: number): boolean => value >= LOW && value <= HIGH;
  if (utility.every(ordinary)) return { fraction: utility.map(exp), exponent: undefined };
  const fraction = new Float64Array(utility.length);
  const exponent = new Float64Array(utility.length);
  for (const [item, value] of utility.entries()) {
    if (ordinary(value)) {
      [fraction[item], exponent[item]] = frexp(exp(value));
    } else {
      const rest = value % LN2;
      fraction[item] = exp(rest);
      exponent[item] = rint((value - rest) / LN2);
    }
  }
  return { fraction, exponent };
}

/** The largest expected revenue of one item that may be shown, shown `copies` times over. */
export function guess(weights: Weights, revenue: Float64Array, copies: number, available: readonly boolean[]): number {
  let largest = -Infinity;
  for (const [item, earned] of revenue.entries()) {
    const scale = weights.exponent === undefined ? 1 : exp2(Math.min(weights.exponent[item]!, 600));
    const weight = weights.fraction[item]! * scale;
    largest = Math.max(largest, available[item] ? (weight / (1 / copies + weight)) * earned : 0);
  }
  return largest;
}
