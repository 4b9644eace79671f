/** When to retry, and what to show if the service is down. */

import type { Call, OfferOptions } from "./calls.js";
import type { Offer } from "./words.js";

export interface RetryOptions {
  /** Further attempts after the first; 3 by default. */
  readonly retries?: number;
  /** Seconds before the first of them, 0.1 by default; each later pause is twice as long, with random jitter. */
  readonly pause?: number;
  /** Items to show at random if the service is down and the offer names no candidates. */
  readonly fallback?: readonly string[];
  /** How many of them to show; required with `fallback`. Without it, `ServiceDown` is thrown. */
  readonly fallbackCapacity?: number;
}

/** How often and how long to try again. */
export class Retry {
  readonly retries: number;
  readonly pause: number;
  readonly fallback: readonly string[];
  readonly fallbackCapacity: number | undefined;

  constructor(options: RetryOptions = {}) {
    this.retries = options.retries ?? 3;
    this.pause = options.pause ?? 0.1;
    this.fallback = options.fallback ?? [];
    this.fallbackCapacity = options.fallbackCapacity;
    if (this.fallback.length > 0 && this.fallbackCapacity === undefined) {
      throw new RangeError("fallbackCapacity must say how many items of fallback are shown, got undefined");
    }
  }

  /** Waits before attempt number `attempt`, from 1 on. */
  async wait(attempt: number): Promise<void> {
    const seconds = this.pause * 2 ** (attempt - 1) * (0.5 + 0.5 * Math.random()); // spreads load, hides nothing
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  }

  /** A random offer in place of the service's, if that was asked for. */
  byChance(call: Call): Offer | undefined {
    if (this.fallbackCapacity === undefined) return undefined;
    const asked = (call.body ?? {}) as OfferOptions;
    const barred = new Set(asked.exclude ?? []);
    const required = (asked.required ?? []).filter((item) => !barred.has(item));
    const free = (asked.candidates ?? this.fallback).filter((item) => !barred.has(item) && !required.includes(item));
    const room = Math.min(asked.capacity ?? this.fallbackCapacity, this.fallbackCapacity);
    const more = sample(free, Math.max(0, room - required.length));
    return { id: null, items: [...required, ...more], release: 0, expires: null, fallback: true };
  }
}

/** A random sample, in random order; all of them if there are too few. */
function sample(from: readonly string[], count: number): string[] {
  const left = [...from];
  const found: string[] = [];
  while (found.length < count && left.length > 0) found.push(...left.splice(below(left.length), 1));
  return found;
}

/** Uniform on 0 .. bound - 1, from the system's generator. */
function below(bound: number): number {
  const limit = 2 ** 32 - (2 ** 32 % bound);
  const drawn = new Uint32Array(1);
  do crypto.getRandomValues(drawn);
  while ((drawn[0] as number) >= limit);
  return (drawn[0] as number) % bound;
}
