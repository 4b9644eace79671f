/**
 * Visitor tickets, which a shop's back end signs and browsers use in place of a key.
 *
 * A ticket lets its holder read one shelf's public documents, take one slot and answer it. Nothing else.
 */

import { encoded } from "./base64.js";
import { newKey } from "./calls.js";

const LONGEST = 3600;

export interface TicketOptions {
  readonly shelf: string;
  /** The shop's pseudonym for the visitor, by which visits of one person are counted. */
  readonly person?: string;
  /** Seconds for which it is valid, at most 3600; 600 by default. */
  readonly seconds?: number;
}

/** Signs a ticket with a key that has the scope `offer`, `qs_ID_SECRET`. The key must never leave the back end. */
export async function signTicket(key: string, options: TicketOptions): Promise<string> {
  const { shelf, person, seconds = 600 } = options;
  if (!(Number.isInteger(seconds) && seconds > 0 && seconds <= LONGEST)) {
    throw new RangeError(`seconds must be a whole number from 1 to ${LONGEST}, got seconds=${seconds}`);
  }
  return signed(key, { shelf, person, expires: Math.floor(Date.now() / 1000 + seconds), nonce: newKey() });
}

/** The content of a ticket. */
export interface TicketFields {
  readonly shelf: string;
  readonly person?: string | undefined;
  readonly expires: number;
  readonly nonce: string;
}

/** The text of a ticket with this content. */
export async function signed(key: string, fields: TicketFields): Promise<string> {
  const [, id, secret] = /^qs_([^_]+)_(.+)$/.exec(key) ?? [];
  if (id === undefined || secret === undefined) throw new RangeError("key must be an API key, qs_ID_SECRET");
  const { shelf, person, expires, nonce } = fields;
  const payload = encoded(utf8(JSON.stringify({ shelf, key: id, person, expires, nonce })));
  const derived = await crypto.subtle.digest("SHA-256", utf8(`quietshelf key ${secret}`));
  const mac = await crypto.subtle.importKey("raw", derived, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const made = await crypto.subtle.sign("HMAC", mac, utf8(`quietshelf ticket ${payload}`));
  return `${payload}.${encoded(new Uint8Array(made))}`;
}

function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
