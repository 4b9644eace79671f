/** Sends requests, and retries if the service cannot be reached or cannot write. */

import { json, type Call } from "./calls.js";
import type { Retry } from "./retry.js";
import { Refused, ServiceDown, type Problem } from "./words.js";

const RETRIED = [502, 503, 504];
const PART = 65_536; // least bytes per part of a stream

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** A connection to one service, with one identity. */
export class Connection {
  readonly url: string;

  /** `authorization` is the whole header; `timeout` is in seconds, for one attempt. */
  constructor(
    url: string,
    private readonly authorization: string,
    private readonly timeout: number,
    private readonly retry: Retry,
  ) {
    if (!/^https?:\/\//.test(url)) { // a mistake must not look like a service that is down
      throw new RangeError(`url must start with http:// or https://, got url=${JSON.stringify(url)}`);
    }
    this.url = url.replace(/\/+$/, "");
  }

  /** The JSON of a reply, undefined if it is empty; throws a refusal. */
  async call(call: Call): Promise<unknown> {
    return read(await this.send(call));
  }

  /** The reply to a request, after retries if they may help; it may be a refusal. */
  async send(call: Call, also: RequestInit = {}): Promise<Reply> {
    const init = this.init(call, also); // before the first attempt: a body that cannot be sent is the caller's mistake
    let reason: unknown;
    for (let attempt = 0; attempt <= this.retry.retries; attempt++) {
      if (attempt > 0) await this.retry.wait(attempt);
      try {
        const reply = await replied(this.url + call.path, { ...init, signal: AbortSignal.timeout(1000 * this.timeout) });
        if (!RETRIED.includes(reply.status)) return reply;
        reason = `status ${reply.status}`;
      } catch (error) {
        reason = error;
      }
    }
    throw new ServiceDown(this.url, this.retry.retries + 1, reason, reason instanceof TypeError ? this.hidden() : "");
  }

  /** Streams lines of JSON, without retries, and waits for the reply as long as it takes. */
  async upload(call: Call, items: Iterable<unknown> | AsyncIterable<unknown>): Promise<unknown> {
    const init = { ...this.init(call, {}), body: stream(items), duplex: "half" };
    let reply: Reply;
    try {
      reply = await replied(this.url + call.path, init);
    } catch (error) {
      if (error instanceof RangeError) throw error; // an item that JSON cannot hold
      throw new ServiceDown(this.url, 1, error);
    }
    if (RETRIED.includes(reply.status)) throw new ServiceDown(this.url, 1, `status ${reply.status}`);
    return read(reply);
  }

  /** A hint for when the browser may have hidden the reply from this page (CORS), which it never says; else empty. */
  private hidden(): string {
    const page = (globalThis.location as Location | undefined)?.origin; // not in node
    if (page === undefined || page === new URL(this.url).origin) return "";
    return `; if it is up, check that its setting \`origins\` names this page's, ${page}, to the letter`;
  }

  private init(call: Call, also: RequestInit): RequestInit {
    const headers = new Headers({ Authorization: this.authorization, ...call.headers });
    const init: RequestInit = { ...also, method: call.method, headers };
    if (call.body === undefined) return init;
    if (!headers.has("Content-Type")) headers.set("Content-Type", "application/json");
    return { ...init, body: json(call.body) };
  }
}

/** The JSON of a reply, undefined if it is empty; throws a refusal. */
export function read(reply: Reply): unknown {
  if (reply.status >= 200 && reply.status < 300) return reply.text === "" ? undefined : JSON.parse(reply.text);
  let problem: unknown;
  try {
    problem = JSON.parse(reply.text);
  } catch {
    problem = {};
  }
  const told = typeof problem === "object" && problem !== null && !Array.isArray(problem);
  throw new Refused(told ? (problem as Problem) : {}, reply.status);
}

/** Fetches a whole reply. */
async function replied(url: string, init: RequestInit): Promise<Reply> {
  const alone = { cache: "no-store", credentials: "omit", redirect: "manual", referrerPolicy: "no-referrer" } as const;
  const response = await fetch(url, { ...alone, ...init });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** Items as lines of JSON, in parts worth sending. */
function stream(items: Iterable<unknown> | AsyncIterable<unknown>): ReadableStream<Uint8Array> {
  const parts = lines(items);
  return new ReadableStream({
    async pull(controller) {
      const next = await parts.next();
      if (next.done === true) controller.close();
      else controller.enqueue(next.value);
    },
  });
}

async function* lines(items: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  let part = "";
  for await (const item of items) {
    part += json(item) + "\n";
    if (part.length < PART) continue;
    yield encoder.encode(part);
    part = "";
  }
  if (part !== "") yield encoder.encode(part);
}
