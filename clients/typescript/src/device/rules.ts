/** The constraints of a problem, and the set they allow that has the largest sum of scores. */

export interface Rules {
  /** K, the most items shown. */
  readonly capacity: number;
  /** Whether exactly K are shown, at whatever score. */
  readonly exactly: boolean;
  /** Which of N items may be shown. */
  readonly available: readonly boolean[];
  /** Which must be; they are available, and no more than K. */
  readonly required: readonly boolean[];
}

/** Places of items, ascending, and which of them are shown. */
export interface Pick {
  readonly places: readonly number[];
  readonly kept: readonly boolean[];
}

/** Overwrites scores: infinity where an item must be shown, minus infinity where it cannot be. */
export function restrict(rules: Rules, score: Float64Array): Float64Array {
  for (let item = 0; item < score.length; item++) {
    if (!rules.available[item]) score[item] = -Infinity;
    if (rules.required[item]) score[item] = Infinity;
  }
  return score;
}

/** The K largest restricted scores; shown are those above `floor`, or all that are allowed where exactly K are. */
export function pick(rules: Rules, score: Float64Array, floor: number): Pick {
  const places = largest(score, rules.capacity).sort((a, b) => a - b);
  return { places, kept: places.map((place) => score[place]! > least(rules, floor)) };
}

/** Whether `pick` would choose the same above zero, no tie left to break. */
export function confirms(rules: Rules, score: Float64Array, { places, kept }: Pick): boolean {
  const last = Math.min(...places.map((place) => score[place]!));
  let count = 0;
  for (const each of score) if (each >= last) count++;
  if (count !== places.length) return false;
  return places.every((place, index) => score[place]! > least(rules, 0) === kept[index]);
}

function least(rules: Rules, floor: number): number {
  return rules.exactly ? -Infinity : floor;
}

/** Places of the `count` largest, best first; of equal ones the first. */
function largest(score: Float64Array, count: number): number[] {
  const found: number[] = [];
  for (let item = 0; item < score.length; item++) {
    if (found.length === count && !(score[item]! > score[found[count - 1]!]!)) continue;
    let place = found.length === count ? count - 1 : found.length;
    for (; place > 0 && score[item]! > score[found[place - 1]!]!; place--) found[place] = found[place - 1]!;
    found[place] = item;
  }
  return found;
}
