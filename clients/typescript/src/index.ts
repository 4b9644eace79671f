/** Client of a Quietshelf service. Offers on the visitor's device: `@quietshelf/client/device`. */

export { Client, type Attributes, type Cell, type ClientOptions, type Item, type OfferOptions } from "./client.js";
export type { Plain, Put } from "./client.js";
export { Retry, type RetryOptions } from "./retry.js";
export { Refused, ServiceDown, type Offer, type Problem } from "./words.js";
