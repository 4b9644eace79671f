/** When to try again, and what to show without a service. */

import type { Call } from "./calls.js";
import type { Offer } from "./words.js";

export interface RetryOptions {
  /** Further attempts after the first; 3 by default. */
  readonly retries?: number;
  /** Seconds before the first of them, 0.1 by default; each next waits twice as long, with some chance in it. */
  readonly pause?: number;
  /** Items to choose from by chance when the service is down and the offer names no candidates. */
  readonly fallback?: readonly string[];
  /** How many of them, needed with `fallback`; without it a service that is down is an error. */
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

  /** A uniform choice in place of an offer, if that was asked for. */
  byChance(call: Call): Offer | undefined {
    if (this.fallbackCapacity === undefined) return undefined;
    const asked = (call.body ?? {}) as Wishes;
    const barred = new Set(asked.exclude ?? []);
    const required = (asked.required ?? []).filter((item) => !barred.has(item));
    const free = (asked.candidates ?? this.fallback).filter((item) => !barred.has(item) && !required.includes(item));
    const room = Math.min(asked.capacity ?? this.fallbackCapacity, this.fallbackCapacity);
    const more = sample(free, Math.max(0, room - required.length));
    return { id: null, items: [...required, ...more], release: 0, expires: null, fallback: true };
  }
}

interface Wishes {
  readonly candidates?: readonly string[];
  readonly required?: readonly string[];
  readonly exclude?: readonly string[];
  readonly capacity?: number;
}

/** Some of these, or all of them, in random order. */
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
