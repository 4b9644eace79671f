/** The service's signed documents for devices: the model, the catalogue, and what a batch froze. */

import { decoded } from "../base64.js";
import { frexp } from "./exponential.js";
import type { Frozen } from "./factors.js";
import { FeatureMap, type MapName } from "./maps.js";

export interface Model {
  readonly kind: "model";
  readonly shelf: string;
  readonly edition: string;
  readonly release: number;
  readonly map: {
    readonly name: MapName;
    readonly intercept: boolean;
    readonly effects: number;
    readonly visitor_dim: number;
    readonly item_dim: number;
  };
  readonly theta: readonly number[];
  readonly covariance: readonly (readonly number[])[];
  readonly radius: number;
  /** How many standard deviations tastes drawn for one visitor differ from theta, and a factor of the covariance. */
  readonly draws: number;
  readonly root: readonly (readonly number[])[] | null;
}

export interface Catalogue {
  readonly kind: "catalogue";
  readonly shelf: string;
  readonly edition: string;
  /** A decimal number that may be too large for a double. */
  readonly version: string;
  readonly ids: readonly string[];
  readonly features: readonly (readonly number[])[];
  readonly revenue: readonly number[];
  readonly offerable: readonly boolean[];
}

export interface Batch extends Frozen {
  readonly kind: "batch";
  readonly shelf: string;
  readonly edition: string;
  readonly batch: number;
}

export type Published = Model | Catalogue | Batch;

/** A document is not what it should be, and may have been forged. */
export class Untrusted extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Untrusted";
  }
}

/** Constants of the arithmetic. A service with other values needs another version of this client. */
const ARITHMETIC: Readonly<Record<string, number>> = {
  jitter: 1e-12,
  doubt: 2e-12,
  largest: 1e290,
  score_bound: 1,
  steps: 3,
  margin: 1 - 2e-10,
  most_moved: 0.75,
};
const BOUNDS = [1e-6, 1e6] as const;
const CONTEXT = "quietshelf device 1\n";

/** Opens an envelope after checking its signature and content; a null `key` skips the signature. */
export async function opened<Kind extends Published["kind"]>(
  envelope: unknown,
  kind: Kind,
  shelf: string,
  key: string | null,
): Promise<Extract<Published, { kind: Kind }>> {
  const { signed, signature } = envelope as { signed?: unknown; signature?: unknown };
  if (typeof signed !== "string" || typeof signature !== "string") throw new Untrusted("an envelope must be signed");
  if (key !== null) await check(key, signed, signature);
  const found = JSON.parse(signed) as Record<string, unknown>;
  if (found["kind"] !== kind || found["shelf"] !== shelf) {
    throw new Untrusted(`the service must send the ${kind} of ${shelf}, got ${found["kind"]} of ${found["shelf"]}`);
  }
  for (const [name, value] of Object.entries(ARITHMETIC)) {
    const other = found[name] ?? value;
    if (other !== value) throw new Untrusted(`${name} must be ${value} in this version of the client, got ${other}`);
  }
  return found as unknown as Extract<Published, { kind: Kind }>;
}

/** The feature map of a model, after checking that the model's sizes fit it. */
export function mapOf(model: Model): FeatureMap {
  const { name, intercept, effects, visitor_dim, item_dim } = model.map;
  const map = new FeatureMap(name, intercept, effects, visitor_dim, item_dim);
  const square = (matrix: readonly (readonly number[])[] | null): boolean =>
    matrix === null || (matrix.length === map.dim && matrix.every((row) => row.length === map.dim));
  if (model.theta.length !== map.dim || !square(model.covariance) || !square(model.root)) {
    throw new Untrusted(`a model must have ${map.dim} coordinates, got ${model.theta.length}`);
  }
  return map;
}

/** Checks that a batch fits a model of `dim` coordinates, and that contributions to it will be bounded and rounded. */
export function checkBatch({ theta, coordinates, bound, score_grid, row_grid }: Batch, dim: number): void {
  if (theta.length !== dim || coordinates.length !== dim || !coordinates.every((line) => line.length === dim)) {
    throw new Untrusted(`a batch must have ${dim} coordinates, got ${theta.length}`);
  }
  const [least, most] = BOUNDS;
  if (!(bound >= least && bound <= most)) {
    throw new Untrusted(`bound must be between ${least} and ${most}, got bound=${bound}`);
  }
  for (const [name, grid] of Object.entries({ score_grid, row_grid })) {
    if (!(grid > 0 && frexp(grid)[0] === 0.5)) throw new Untrusted(`${name} must be a power of two, got ${name}=${grid}`);
  }
}

async function check(key: string, text: string, signature: string): Promise<void> {
  const data = new TextEncoder().encode(CONTEXT + text);
  let right: boolean;
  try {
    const known = await crypto.subtle.importKey("raw", decoded(key), { name: "Ed25519" }, false, ["verify"]);
    right = await crypto.subtle.verify({ name: "Ed25519" }, known, decoded(signature), data);
  } catch (error) { // an old browser, or a page without TLS: refuse rather than trust
    throw new Untrusted(`the signature must be checked, which this browser cannot do: ${String(error)}`);
  }
  if (!right) throw new Untrusted("the signature must be that of the service, got another one");
}
