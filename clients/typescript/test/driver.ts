/** Does what a table of behaviours says and prints what came of it: `node driver.js TABLE URL`. */

import { readFile } from "node:fs/promises";
import { Client, Refused, ServiceDown, type RetryOptions } from "@quietshelf/client";

interface Case {
  readonly retry?: Readonly<Record<string, unknown>>;
  readonly calls: readonly (readonly [string, readonly unknown[], Readonly<Record<string, unknown>>])[];
}

const camel = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/** Numbers that JSON cannot hold. */
function revived(_: string, value: unknown): unknown {
  return value === "NaN" || value === "Infinity" ? Number(value) : value;
}

function argument(value: unknown): unknown {
  const none = { id: null, items: [], release: 0, expires: null, fallback: true };
  return typeof value === "object" && value !== null && "fallback offer" in value ? none : value;
}

async function outcome(client: Client, [verb, given, named]: Case["calls"][number]): Promise<unknown> {
  const list = given.map(argument);
  if (Object.keys(named).length > 0) list.push(named);
  const called = client as unknown as Record<string, (...list: unknown[]) => unknown>;
  try {
    let value = called[camel(verb)]?.(...list);
    if (verb === "items") {
      const all: unknown[] = [];
      for await (const item of value as AsyncIterable<unknown>) all.push(item);
      value = all;
    }
    return { value: (await value) ?? null };
  } catch (error) {
    if (error instanceof Refused) return { refused: [error.status, error.kind, error.message] };
    if (error instanceof ServiceDown) return { down: error.message };
    if (error instanceof RangeError) return { mistake: error.message };
    throw error;
  }
}

const [, , table = "", url = ""] = process.argv;
const cases = JSON.parse(await readFile(table, "utf8"), revived) as Case[];
const found: unknown[] = [];
for (const [place, each] of cases.entries()) {
  const given = each.retry ?? { retries: 2, pause: 0.001 };
  const retry = Object.fromEntries(Object.entries(given).map(([name, value]) => [camel(name), value])) as RetryOptions;
  const client = new Client(`${url}/${place}`, "qs_a_b", { retry });
  const outcomes: unknown[] = [];
  for (const call of each.calls) outcomes.push(await outcome(client, call));
  found.push(outcomes);
}
console.log(JSON.stringify(found));
