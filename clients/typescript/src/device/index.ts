/** Offers decided on the visitor's device, which sends a bounded contribution instead of features and choices. */

export { choose, rowsOf, type Slot, type Wishes } from "./choose.js";
export { Coins } from "./coins.js";
export { opened, Untrusted, type Batch, type Catalogue, type Model } from "./envelope.js";
export { contribution, type Contribution, type Frozen } from "./factors.js";
export { DeviceOffer, DeviceShelf, type DeviceOptions } from "./shelf.js";
export { Refused, ServiceDown, type Offer } from "../words.js";
