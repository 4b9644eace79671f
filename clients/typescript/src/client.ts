/** A client for a shop's back end, which holds a key. */

import { choiceCall, offerCall, shelfCall, type Attributes, type Cell, type OfferOptions } from "./calls.js";
import { Connection } from "./http.js";
import { Retry, type RetryOptions } from "./retry.js";
import { ServiceDown, type Offer } from "./words.js";

const MANY = 1000; // most items sent in one document; more are streamed
const NDJSON = { "Content-Type": "application/x-ndjson" };

export interface ClientOptions {
  /** Seconds for one attempt; 5 by default. */
  readonly timeout?: number;
  /** Retries, and what to show when the service is down. */
  readonly retry?: RetryOptions;
}

/** An item to put. Fields left out of a known item stay as they are. */
export interface Item {
  readonly id: string;
  readonly features?: readonly number[];
  readonly attributes?: Attributes;
  readonly revenue?: number;
  readonly available?: boolean;
  readonly group?: string;
  readonly rank?: number | null;
}

/** A JSON object; the service's reference lists its fields. */
export type Plain = Readonly<Record<string, unknown>>;
export interface Put {
  readonly added: number;
  readonly changed: number;
}

/** A client of one service. Its key belongs on a server; browsers get a ticket instead (see `signTicket`). */
export class Client {
  private readonly http: Connection;
  private readonly retry: Retry;

  constructor(url: string, key: string, options: ClientOptions = {}) {
    this.retry = new Retry(options.retry);
    this.http = new Connection(url, `Bearer ${key}`, options.timeout ?? 5, this.retry);
  }

  /**
   * Requests what to show one visitor; a retry after a lost reply is the same visitor.
   *
   * `features` may be attributes by name, if the shelf has a schema.
   */
  async offer(shelf: string, features: readonly number[] | Attributes = [], options: OfferOptions = {}): Promise<Offer> {
    const call = offerCall(shelf, features, options);
    try {
      const made = (await this.http.call(call)) as { offer: string; items: string[]; release: number; expires: string };
      return { id: made.offer, items: made.items, release: made.release, expires: made.expires, fallback: false };
    } catch (error) {
      const chance = error instanceof ServiceDown ? this.retry.byChance(call) : undefined;
      if (chance === undefined) throw error;
      return chance;
    }
  }

  /** Answers an offer: the item chosen, or null. Sends nothing for a random fallback offer. */
  async choose(offer: Offer | string, item: string | null): Promise<void> {
    const name = typeof offer === "string" ? offer : offer.id;
    if (name !== null) await this.http.call(choiceCall(name, item));
  }

  /** Creates or changes a shelf; returns whether it is new. */
  async putShelf(shelf: string, settings: Plain): Promise<boolean> {
    return ((await this.http.call(shelfCall("PUT", shelf, "", settings))) as { created: boolean }).created;
  }

  /** A shelf's settings and figures, and the names of its coordinates. */
  async shelf(shelf: string): Promise<Plain> {
    return (await this.http.call(shelfCall("GET", shelf))) as Plain;
  }

  /** Adds and changes items. */
  async putItems(shelf: string, items: readonly Item[]): Promise<Put> {
    if (items.length > MANY) return this.uploadItems(shelf, items);
    return (await this.http.call(shelfCall("PUT", shelf, "/items", { items }))) as Put;
  }

  /** Streams any number of items, shown once all have arrived; not retried. */
  async uploadItems(shelf: string, items: Iterable<Item> | AsyncIterable<Item>): Promise<Put> {
    return (await this.http.upload(shelfCall("PUT", shelf, "/items", undefined, NDJSON), items)) as Put;
  }

  /** All items of a shelf, including retired ones, read page by page. */
  async *items(shelf: string): AsyncGenerator<Plain & { readonly id: string }> {
    for (let after: number | null = -1; after !== null; ) {
      const reply = await this.http.call(shelfCall("GET", shelf, `/items?after=${after}`));
      const page = reply as { items: (Plain & { id: string })[]; next: number | null };
      yield* page.items;
      after = page.next;
    }
  }

  /** Never shows these items again. */
  async retire(shelf: string, items: readonly string[]): Promise<void> {
    await this.http.call(shelfCall("POST", shelf, "/items/retire", { items }));
  }

  /** Erases a person: visits that are in no release yet contribute nothing. Returns how many there were. */
  async erase(shelf: string, person: string): Promise<number> {
    return ((await this.http.call(shelfCall("POST", shelf, "/erasures", { person }))) as { erased: number }).erased;
  }

  /** The promise in words and numbers, and the ledger. */
  async privacy(shelf: string): Promise<Plain> {
    return (await this.http.call(shelfCall("GET", shelf, "/privacy"))) as Plain;
  }

  /** Compares the learned policy with what you show today, from releases alone. */
  async comparison(shelf: string): Promise<Plain> {
    return (await this.http.call(shelfCall("GET", shelf, "/comparison"))) as Plain;
  }

  /** Every release and the estimate it led to. */
  async releases(shelf: string): Promise<readonly Plain[]> {
    return ((await this.http.call(shelfCall("GET", shelf, "/releases"))) as { releases: Plain[] }).releases;
  }
}

export type { Attributes, Cell, OfferOptions };
