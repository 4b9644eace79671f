/**
 * exp, with the same bits in every browser and in Python: made of +, -, * and / alone, in the order written here.
 *
 * `Math.exp` and `**` may differ in the last bit from one engine to the next; these four operations may not. The method
 * is that of fdlibm: `x = k ln 2 + r` with k whole, then a rational function of r. See `model/assortment/exponential.py`.
 */

export const LN2 = 0.6931471805599453;
const INVERSE_LN2 = 1.4426950408889634;
const LN2_HIGH = 6.93147180369123816490e-1; // its last 21 bits are zero: k times it is exact
const LN2_LOW = 1.90821492927058770002e-10;
const P1 = 1.66666666666666019037e-1;
const P2 = -2.77777777770155933842e-3;
const P3 = 6.61375632143793436117e-5;
const P4 = -1.6533902205465251539e-6;
const P5 = 4.13813679705723846039e-8;

/** `exp(x)` to within one unit in the last place, for x within ±700. */
export function exp(x: number): number {
  const k = rint(x * INVERSE_LN2);
  const high = x - k * LN2_HIGH;
  const low = k * LN2_LOW;
  const r = high - low;
  const t = r * r;
  const c = r - t * (P1 + t * (P2 + t * (P3 + t * (P4 + t * P5))));
  return (1 - (low - (r * c) / (2 - c) - high)) * exp2(k);
}

const BITS = new DataView(new ArrayBuffer(8));
const TINY = exp2(-53);
const HUGE = exp2(64);

/** 2 to a whole power, exactly. */
export function exp2(power: number): number {
  if (power > 1023) return Infinity;
  if (power < -1074) return 0;
  if (power < -1022) return exp2(power + 53) * TINY;
  BITS.setFloat64(0, 0);
  BITS.setUint16(0, (power + 1023) << 4);
  return BITS.getFloat64(0);
}

/** Splits a number into a fraction between 1/2 and 1 in size, and a power of two. */
export function frexp(value: number): [number, number] {
  if (value === 0 || !Number.isFinite(value)) return [value, 0];
  BITS.setFloat64(0, value);
  const raw = (BITS.getUint16(0) >> 4) & 0x7ff;
  if (raw === 0) {
    const [fraction, exponent] = frexp(value * HUGE);
    return [fraction, exponent - 64];
  }
  BITS.setUint16(0, (BITS.getUint16(0) & 0x800f) | (1022 << 4));
  return [BITS.getFloat64(0), raw - 1022];
}

/** The nearest whole number; the even one of two. */
export function rint(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  if (rest !== 0.5) return rest < 0.5 ? down : down + 1;
  return down % 2 === 0 ? down : down + 1;
}
