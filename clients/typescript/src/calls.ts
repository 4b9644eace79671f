/** Requests as data. */

import { encoded } from "./base64.js";

export interface Call {
  readonly method: "GET" | "PUT" | "POST";
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What a column of a product table, or an attribute of a visitor, may hold. */
export type Cell = string | number | boolean | null | readonly number[];
export type Attributes = Readonly<Record<string, Cell>>;

/** What an offer may ask for beside the visitor's features. */
export interface OfferOptions {
  readonly person?: string;
  readonly candidates?: readonly string[];
  readonly required?: readonly string[];
  readonly exclude?: readonly string[];
  readonly capacity?: number;
  readonly ranking?: readonly string[];
}

/** Asks for an offer. The key makes every repetition of this very call the same visitor. */
export function offerCall(shelf: string, features: readonly number[] | Attributes, options: OfferOptions): Call {
  const { person, candidates, required, exclude, capacity, ranking } = options;
  const asked = { person, candidates, required, exclude, capacity, ranking }; // undefined is left out of JSON
  const given = isList(features) ? { features: checked(features) } : { attributes: cells(features) };
  return shelfCall("POST", shelf, "/offers", { ...asked, ...given }, { "Idempotency-Key": newKey() });
}

/** Answers an offer; the same answer again is fine. */
export function choiceCall(offer: string, item: string | null): Call {
  return { method: "POST", path: `/v1/offers/${segment(offer)}/choice`, body: { item } };
}

/** Asks for a shelf, or for a part of it such as `/items`. */
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

/** JSON that never holds a number that is none. */
export function json(value: unknown): string {
  return JSON.stringify(value, (name, part: unknown) => {
    if (typeof part === "number" && !Number.isFinite(part)) {
      throw new RangeError(`numbers must be finite, got ${name}=${part}`);
    }
    return part;
  });
}

/** A name that nobody else has. */
export function newKey(): string {
  return encoded(crypto.getRandomValues(new Uint8Array(18)));
}

/** A name as one segment of a path: whatever is in it, it must not lead to another address. */
export function segment(name: string): string {
  if (name === "" || name === "." || name === "..") { // URL parsers resolve dots even where they are escaped
    throw new RangeError(`a name must not be empty, "." or "..", got ${JSON.stringify(name)}`);
  }
  return encodeURIComponent(name);
}

/** Whether these are features; `Array.isArray` alone does not tell read-only lists from records. */
export function isList(value: readonly number[] | Attributes): value is readonly number[] {
  return Array.isArray(value);
}

function checked(features: readonly number[]): readonly number[] {
  if (!features.every(Number.isFinite)) throw new RangeError(`features must be finite, got features=[${features}]`);
  return features;
}

/** As JSON has them: what is NaN is missing. */
function cells(given: Attributes): Attributes {
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, Number.isNaN(value) ? null : value]));
}
