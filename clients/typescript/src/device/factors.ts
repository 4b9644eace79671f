/**
 * One visitor's bounded contribution: a score, and the K + 1 rows that the information is made of, on a public grid.
 *
 * In public coordinates z_j = L x_j, over the items shown and none (z_0 = 0), with p_j the probabilities at theta:
 * psi_j = (z_j - m) h_j, h_j = min(1, 1/|z_j - m|), around a centre m that nearly solves r = sum_j p_j psi_j = 0;
 * phi_j = s (psi_j - r), s = 1/(1 + |r|); rows a_j = sqrt(w p_j h_j s) (z_j - m), none last; score -w phi_chosen, with
 * w such that score and information together are no longer than the bounds. Zero where anything is not finite. The
 * service checks the bounds again, whatever is sent. Reference: docs/proofs.md, sections 4 and 5.
 */

import { rint } from "./exponential.js";

const STEPS = 3; // fixed-point steps towards the centre m; the bounds hold wherever m ends
const MARGIN = 1 - 2e-10; // covers all rounding
const MOST_MOVED = 0.75; // by rounding, in units of the bound; on a coarser grid all contributions are zero

/** What a batch froze when it opened, all of it public. */
export interface Frozen {
  /** (d). */
  readonly theta: readonly number[];
  /** L, d rows of d. */
  readonly coordinates: readonly (readonly number[])[];
  /** B. */
  readonly bound: number;
  /** Powers of two: numbers are rounded to multiples of them; 0 for no rounding. */
  readonly score_grid: number;
  readonly row_grid: number;
}

export interface Contribution {
  readonly score: number[];
  /** One for each item shown, and one for none at the end. */
  readonly rows: number[][];
}

type Row = Float64Array;

/** The contribution of a visitor who saw items with features `rows` and chose the one at `chosen`, -1 for none. */
export function contribution(rows: readonly Row[], chosen: number, frozen: Frozen): Contribution {
  const dim = frozen.theta.length;
  const nothing = { score: Array<number>(dim).fill(0), rows: [...rows, 0].map(() => Array<number>(dim).fill(0)) };
  if (rows.length === 0) return nothing;
  const utility = rows.map((row) => dot(row, frozen.theta));
  const away = [...rows.map((row) => Float64Array.from(frozen.coordinates, (line) => dot(row, line))), new Float64Array(dim)];
  const around = centred(shares(utility), away);
  const place = chosen < 0 ? rows.length : chosen;
  const shrink = 1 / (1 + Math.sqrt(dot(around.rest, around.rest)));
  const factors = away.map((row, j) => row.map((x) => x * Math.sqrt(around.chance[j]! * around.cut[j]! * shrink)));
  const weight = weighed(around, away, factors, shrink, frozen);
  if (!Number.isFinite(weight) || !utility.every(Number.isFinite)) return nothing;
  const { score_grid: fine, row_grid: grid } = frozen;
  const scaled = around.rest.map((r, a) => (around.cut[place]! * away[place]![a]! - r) * (-weight * shrink));
  return {
    score: Array.from(scaled, (x) => onGrid(x, fine, Math.trunc)),
    rows: factors.map((row) => Array.from(row, (x) => onGrid(x * Math.sqrt(weight), grid, rint))),
  };
}

interface Centred {
  readonly chance: readonly number[];
  readonly cut: readonly number[];
  readonly square: readonly number[];
  readonly rest: Row;
}

/** Moves rows z_j, in place, to z_j - m: from the mean on, each step to the mean weighted by p_j h_j. */
function centred(chance: readonly number[], away: readonly Row[]): Centred {
  shift(away, mean(chance, away), 1);
  for (let step = 0; ; step++) {
    const square = away.map((row) => dot(row, row));
    const cut = square.map((each) => 1 / Math.sqrt(Math.max(each, 1)));
    const pull = chance.map((p, j) => p * cut[j]!);
    const rest = mean(pull, away);
    if (step === STEPS) return { chance, cut, square, rest };
    shift(away, rest, pull.reduce((sum, each) => sum + each, 0));
  }
}

/** w; not finite where anything is not. */
function weighed(
  around: Centred,
  away: readonly Row[],
  factors: readonly Row[],
  shrink: number,
  { bound, row_grid }: Frozen,
): number {
  const { cut, square, rest } = around;
  const longest = cut.map((h, j) => h * (h * square[j]! - 2 * dot(away[j]!, rest)));
  const reach = Math.max(...longest) + dot(rest, rest);
  const lines = factors.map((one) => factors.reduce((sum, other) => sum + dot(one, other) ** 2, 0));
  const large = lines.reduce((sum, each) => sum + each, 0);
  const joint = shrink * shrink * reach + large / (bound * bound);
  if (!Number.isFinite(joint)) return NaN;
  const off = (0.5 * row_grid * Math.sqrt(away.length * rest.length)) / Math.sqrt(bound);
  const moved = (2 + off) * off;
  return Math.min(1, (moved <= MOST_MOVED ? MARGIN - moved : 0) / Math.sqrt(Math.max(joint, 1e-300)));
}

/** Probabilities of the items, and of none at the end. */
function shares(utility: readonly number[]): number[] {
  const top = Math.max(0, ...utility);
  const weights = [...utility.map((each) => Math.exp(each - top)), Math.exp(-top)];
  const total = weights.reduce((sum, each) => sum + each, 0);
  return weights.map((each) => each / total);
}

function mean(weights: readonly number[], rows: readonly Row[]): Row {
  const sum = new Float64Array(rows[0]!.length);
  for (const [j, row] of rows.entries()) for (let a = 0; a < sum.length; a++) sum[a]! += weights[j]! * row[a]!;
  return sum;
}

function shift(rows: readonly Row[], by: Row, total: number): void {
  for (const row of rows) for (let a = 0; a < row.length; a++) row[a]! -= by[a]! / total;
}

function dot(one: Row, other: Row | readonly number[]): number {
  let sum = 0;
  for (let a = 0; a < one.length; a++) sum += one[a]! * other[a]!;
  return sum;
}

function onGrid(value: number, grid: number, round: (value: number) => number): number {
  return grid === 0 ? value : round(value / grid) * grid + 0; // minus zero is zero
}
