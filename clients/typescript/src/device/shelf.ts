/** Offers on the visitor's device: features and choices stay here; the service gets a bounded contribution. */

import { segment, shelfCall, type Call } from "../calls.js";
import { Connection, read } from "../http.js";
import { Retry, type RetryOptions } from "../retry.js";
import { Refused, ServiceDown, type Offer } from "../words.js";
import { choose, rowsOf, type Slot, type Wishes } from "./choose.js";
import { checkBatch, opened, Untrusted, type Batch, type Catalogue, type Model, type Published } from "./envelope.js";
import { contribution } from "./factors.js";

const MOST_KEPT_ALIVE = 60_000; // bytes that browsers still send while a page unloads

export interface DeviceOptions {
  /** Gets a ticket for one visit, signed by the shop's back end (`signTicket`). */
  readonly ticket: () => Promise<string> | string;
  /** The service's public key, as `quietshelf keys signing` prints it; null trusts whatever the address leads to. */
  readonly signingKey: string | null;
  /** Seconds for one attempt; 5 by default. */
  readonly timeout?: number;
  readonly retry?: RetryOptions;
}

/** A ticket, and the slot it took. */
interface Visit {
  readonly ticket: Promise<string>;
  readonly http: Connection;
  readonly slot: TakenSlot;
}

interface TakenSlot extends Slot {
  readonly offer: string;
  readonly release: number;
  readonly batch: number;
  readonly catalogue: string;
  /** Never repeats, unlike the numbers of a shelf that was recreated or restored. */
  readonly edition: string;
  readonly expires: string;
}

/** One shelf of a service, as a visitor's device sees it. */
export class DeviceShelf {
  private readonly retry: Retry;
  private readonly kept = new Map<string, Promise<Published>>();
  private ticket: Promise<string> | undefined; // of the visit that is not answered yet
  private shown: DeviceOffer | undefined; // the last one

  constructor(
    private readonly url: string,
    private readonly shelf: string,
    private readonly options: DeviceOptions,
  ) {
    this.retry = new Retry(options.retry);
  }

  /**
   * Chooses what to show this visitor. Until it is answered, another offer is the same visit and replaces it. Leaving
   * the page without a choice is sent as no choice.
   */
  async offer(features: readonly number[] = [], wishes: Wishes = {}): Promise<DeviceOffer> {
    if (!features.every(Number.isFinite)) throw new RangeError(`features must be finite, got features=[${features}]`);
    const made = await this.made(features, wishes);
    this.shown?.withdraw();
    this.shown = made;
    return made;
  }

  private async made(features: readonly number[], wishes: Wishes): Promise<DeviceOffer> {
    try {
      const { ticket, http, slot } = await this.visiting();
      const [model, catalogue, batch] = await this.published(http, slot);
      const places = choose(model, catalogue, features, slot, wishes);
      const rows = rowsOf(model, catalogue, features, places);
      const items = places.map((place) => catalogue.ids[place]!);
      return new DeviceOffer({ ...slot, id: slot.offer, items, fallback: false }, async (chosen) => {
        this.over(ticket);
        await sent(http, slot.offer, contribution(rows, chosen, batch));
      });
    } catch (error) {
      const asked = { method: "POST", path: "", body: wishes } as const;
      const chance = error instanceof ServiceDown ? this.retry.byChance(asked) : undefined;
      if (chance === undefined) throw error;
      return new DeviceOffer(chance, () => Promise.resolve());
    }
  }

  /** The visit that is not answered yet; a new one if there is none, or if its ticket or offer has expired. */
  private async visiting(): Promise<Visit> {
    const held = this.ticket;
    const ticket = (this.ticket ??= (async () => this.options.ticket())());
    try {
      const http = new Connection(this.url, `Ticket ${await ticket}`, this.options.timeout ?? 5, this.retry);
      return { ticket, http, slot: (await http.call(shelfCall("POST", this.shelf, "/slots", {}))) as TakenSlot };
    } catch (error) {
      if (error instanceof ServiceDown) throw error; // the ticket may have taken a slot, so keep it
      this.over(ticket);
      const late = error instanceof Refused && (error.status === 401 || error.kind === "offer-expired");
      if (held === undefined || !late) throw error;
      return this.visiting();
    }
  }

  /** Drops a ticket, so that the next visit gets another. */
  private over(ticket: Promise<string>): void {
    if (this.ticket === ticket) this.ticket = undefined;
  }

  /** The model, catalogue and batch that a slot names, fetched once and then kept. */
  private async published(http: Connection, slot: TakenSlot): Promise<[Model, Catalogue, Batch]> {
    const edition = `?edition=${encodeURIComponent(slot.edition)}`;
    const [model, catalogue, batch] = await Promise.all([
      this.once(http, "model", `/models/${slot.release}${edition}`),
      this.once(http, "catalogue", `/catalogues/${slot.catalogue}${edition}`),
      this.once(http, "batch", `/batches/${slot.batch}${edition}`),
    ]);
    const alike = [model, catalogue, batch].every((each) => each.edition === slot.edition);
    const newer = BigInt(catalogue.version) >= BigInt(slot.catalogue);
    if (!alike || model.release !== slot.release || batch.batch !== slot.batch || !newer) {
      throw new Untrusted("the service must send the documents that the slot names, got another version");
    }
    checkBatch(batch, model.theta.length);
    return [model, catalogue, batch];
  }

  private async once<Kind extends Published["kind"]>(
    http: Connection,
    kind: Kind,
    part: string,
  ): Promise<Extract<Published, { kind: Kind }>> {
    const { shelf, kept, options } = this;
    const fetched = async (): Promise<Published> => {
      const reply = await http.send(shelfCall("GET", shelf, part), { cache: "default" });
      return opened(read(reply), kind, shelf, options.signingKey);
    };
    const found = kept.get(part) ?? fetched();
    for (const other of kept.keys()) if (other.split("/")[1] === part.split("/")[1]) kept.delete(other);
    kept.set(part, found);
    found.catch(() => kept.delete(part)); // a failed request is made again
    return (await found) as Extract<Published, { kind: Kind }>;
  }
}

/** What to show, and the one answer to it. */
export class DeviceOffer implements Offer {
  readonly id: string | null;
  readonly items: readonly string[];
  readonly release: number;
  readonly expires: string | null;
  readonly fallback: boolean;
  private given: number | undefined; // the first answer
  private sent: Promise<void> | undefined;
  private withdrawn = false;
  private readonly leave = (): void => void this.answer(-1).catch(() => undefined); // nobody is left to tell

  constructor(
    made: Offer,
    private readonly send: (chosen: number) => Promise<void>,
  ) {
    ({ id: this.id, items: this.items, release: this.release, expires: this.expires, fallback: this.fallback } = made);
    if (this.id !== null) globalThis.addEventListener?.("pagehide", this.leave);
  }

  /** Answers: the item chosen, or null. The first answer stands, even if it was leaving the page. */
  async choose(item: string | null): Promise<void> {
    const place = item === null ? -1 : this.items.indexOf(item);
    if (item !== null && place < 0) throw new RangeError(`item must be one of those shown, got ${JSON.stringify(item)}`);
    if (this.withdrawn) throw new Error("another offer of this visit has replaced this one");
    await this.answer(place);
  }

  /** Withdraws this offer, unless it was answered, because another offer of the same visit replaces it. */
  withdraw(): void {
    if (this.given !== undefined) return;
    this.withdrawn = true;
    globalThis.removeEventListener?.("pagehide", this.leave);
  }

  private async answer(place: number): Promise<void> {
    if (this.id === null) return;
    this.given ??= place;
    this.sent ??= this.send(this.given);
    try {
      await this.sent;
      globalThis.removeEventListener?.("pagehide", this.leave);
    } catch (error) {
      if (error instanceof ServiceDown) this.sent = undefined; // it was not refused, so the same answer may be sent again
      throw error;
    }
  }
}

async function sent(http: Connection, offer: string, body: unknown): Promise<void> {
  const call: Call = { method: "POST", path: `/v1/offers/${segment(offer)}/contribution`, body };
  const keepalive = JSON.stringify(body).length < MOST_KEPT_ALIVE; // choices, too, often lead to another page
  read(await http.send(call, { keepalive }));
}
