/**
 * Attraction weights `exp(utility)` that neither overflow nor vanish: fraction x 2^exponent.
 *
 * Ordinary weights are kept as they are. As soon as one number leaves the ordinary range, all are split.
 */

const ORDINARY_EXPONENT = 33;
const LN2 = Math.LN2;
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
  if (utility.every(ordinary)) return { fraction: utility.map(Math.exp), exponent: undefined };
  const fraction = new Float64Array(utility.length);
  const exponent = new Float64Array(utility.length);
  for (const [item, value] of utility.entries()) {
    if (ordinary(value)) {
      [fraction[item], exponent[item]] = frexp(Math.exp(value));
    } else {
      const rest = value % LN2;
      fraction[item] = Math.exp(rest);
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

const BITS = new DataView(new ArrayBuffer(8));

/** Fraction of size 1/2 to 1 and exponent whose product is the number. */
export function frexp(value: number): [number, number] {
  if (value === 0 || !Number.isFinite(value)) return [value, 0];
  BITS.setFloat64(0, value);
  const raw = (BITS.getUint16(0) >> 4) & 0x7ff;
  if (raw === 0) {
    const [fraction, exponent] = frexp(value * 2 ** 64);
    return [fraction, exponent - 64];
  }
  BITS.setUint16(0, (BITS.getUint16(0) & 0x800f) | (1022 << 4));
  return [BITS.getFloat64(0), raw - 1022];
}

/** 2 to a whole power, exactly. */
export function exp2(power: number): number {
  if (power > 1023) return Infinity;
  if (power < -1074) return 0;
  if (power < -1022) return exp2(power + 53) * 2 ** -53;
  BITS.setFloat64(0, 0);
  BITS.setUint16(0, (power + 1023) << 4);
  return BITS.getFloat64(0);
}

/** The nearest whole number, of two the even one. */
export function rint(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  if (rest !== 0.5) return rest < 0.5 ? down : down + 1;
  return down % 2 === 0 ? down : down + 1;
}
