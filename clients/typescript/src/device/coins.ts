/**
 * The coins of one slot: NumPy's Philox4x64-10, from its start.
 *
 * Every item gets its own number, uniform on [0, 1), with the same bits as in Python.
 */

import { exp2 } from "./exponential.js";

const MASK = (1n << 64n) - 1n;
const MULTIPLIER = [0xd2e7470ee14c6c93n, 0xca5a826395121157n] as const;
const WEYL = [0x9e3779b97f4a7c15n, 0xbb67ae8584caa73bn] as const;
const ROUNDS = 10;
const UNIT = exp2(-53);

/** Coins keyed by the slot's 16 bytes, in hexadecimal. */
export class Coins {
  private readonly key: readonly [bigint, bigint];

  constructor(hex: string) {
    if (!/^[0-9a-f]{32}$/.test(hex)) throw new RangeError("coins must be 16 bytes in hexadecimal");
    this.key = [littleEndian(hex.slice(0, 16)), littleEndian(hex.slice(16))];
  }

  /** The first `count` numbers. */
  uniform(count: number): Float64Array {
    const drawn = new Float64Array(count);
    for (let start = 0; start < count; start += 4) {
      const block = this.block(BigInt(start / 4 + 1)); // NumPy counts before it draws
      for (let place = 0; place < 4 && start + place < count; place++) {
        drawn[start + place] = Number(block[place]! >> 11n) * UNIT;
      }
    }
    return drawn;
  }

  /** Four numbers of 64 bits. */
  private block(counter: bigint): readonly bigint[] {
    let [a, b, c, d] = [counter, 0n, 0n, 0n];
    let [k, l] = this.key;
    for (let round = 0; round < ROUNDS; round++) {
      const first = MULTIPLIER[0] * a;
      const second = MULTIPLIER[1] * c;
      [a, b, c, d] = [(second >> 64n) ^ b ^ k, second & MASK, (first >> 64n) ^ d ^ l, first & MASK];
      k = (k + WEYL[0]) & MASK;
      l = (l + WEYL[1]) & MASK;
    }
    return [a, b, c, d];
  }
}

function littleEndian(hex: string): bigint {
  const bytes = hex.match(/../g) ?? [];
  return BigInt(`0x${bytes.reverse().join("")}`);
}
