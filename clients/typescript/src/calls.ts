/** Requests as data. */

import { encoded } from "./base64.js";

export interface Call {
  readonly method: "GET" | "PUT" | "POST";
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A value in a column of a product table, or of a visitor's attribute. */
export type Cell = string | number | boolean | null | readonly number[];
export type Attributes = Readonly<Record<string, Cell>>;

/** Options of an offer, beside the visitor's features. */
export interface OfferOptions {
  readonly person?: string;
  readonly candidates?: readonly string[];
  readonly required?: readonly string[];
  readonly exclude?: readonly string[];
  readonly capacity?: number;
  readonly ranking?: readonly string[];
}

/** Requests an offer. The key makes every retry of this call the same visitor. */
export function offerCall(shelf: string, features: readonly number[] | Attributes, options: OfferOptions): Call {
  const { person, candidates, required, exclude, capacity, ranking } = options;
  const asked = { person, candidates, required, exclude, capacity, ranking }; // undefined is left out of JSON
  const given = isList(features) ? { features: checked(features) } : { attributes: cells(features) };
  return shelfCall("POST", shelf, "/offers", { ...asked, ...given }, { "Idempotency-Key": newKey() });
}

/** Answers an offer. Repeating the same answer is harmless. */
export function choiceCall(offer: string, item: string | null): Call {
  return { method: "POST", path: `/v1/offers/${segment(offer)}/choice`, body: { item } };
}

/** A request about a shelf, or a part of it such as `/items`. */
export function shelfCall(
  method: Call["method"],
  shelf: string,
  part = "",
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
): Call {
  const path = `/v1/shelves/${segment(shelf)}${part}`;
  return { method, path, ...(body === undefined ? {} : { body }), ...(headers === undefined ? {} : { headers }) };
}

/** JSON that refuses NaN and infinity. */
export function json(value: unknown): string {
  return JSON.stringify(value, (name, part: unknown) => {
    if (typeof part === "number" && !Number.isFinite(part)) {
      throw new RangeError(`numbers must be finite, got ${name}=${part}`);
    }
    return part;
  });
}

/** A random name. */
export function newKey(): string {
  return encoded(crypto.getRandomValues(new Uint8Array(18)));
}

/** Escapes a name as one path segment, so that it can never lead to another address. */
export function segment(name: string): string {
  if (name === "" || name === "." || name === "..") { // URL parsers resolve dots even where they are escaped
    throw new RangeError(`a name must not be empty, "." or "..", got ${JSON.stringify(name)}`);
  }
  return encodeURIComponent(name);
}

/** Whether these are features; on its own, `Array.isArray` cannot tell the compiler. */
export function isList(value: readonly number[] | Attributes): value is readonly number[] {
  return Array.isArray(value);
}

function checked(features: readonly number[]): readonly number[] {
  if (!features.every(Number.isFinite)) throw new RangeError(`features must be finite, got features=[${features}]`);
  return features;
}

/** Attributes for JSON, with NaN as null. */
function cells(given: Attributes): Attributes {
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, Number.isNaN(value) ? null : value]));
}
