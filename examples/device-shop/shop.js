/** Offers made on this device: taste and choice are used here and sent nowhere. */

import { DeviceShelf } from "./client/device/index.js";

const by = (id) => document.getElementById(id);
const text = async (path) => (await fetch(path)).text();

const { url, shelf, signingKey } = JSON.parse(await text("/settings"));
const teas = new DeviceShelf(url, shelf, { ticket: () => text("/ticket"), signingKey });

/** A button that answers the offer. */
function answers(button, offer, item, words) {
  button.onclick = async () => {
    try {
      await offer.choose(item);
    } catch (error) { // a shop would sell the tea all the same
      by("said").textContent = error.message;
      return;
    }
    by("teas").replaceChildren();
    by("none").hidden = true;
    by("said").textContent = words;
  };
  return button;
}

by("show").addEventListener("click", async () => {
  let offer;
  try {
    offer = await teas.offer([Number(by("strong").value), Number(by("flowery").value)]);
  } catch (error) { // a shop would show what it shows to everybody, and tell its operator
    by("said").textContent = error.message;
    return;
  }
  by("said").textContent = "";
  by("none").hidden = false;
  answers(by("none"), offer, null, "Another time, then.");
  by("teas").replaceChildren(
    ...offer.items.map((item) => {
      const [card, button] = [document.createElement("li"), document.createElement("button")];
      button.textContent = "Buy";
      button.setAttribute("aria-label", `Buy ${item}`);
      card.append(item, answers(button, offer, item, `Enjoy your ${item}.`));
      return card;
    }),
  );
});
by("show").disabled = false;

/** Every request of this page, as the browser itself counts them. */
new PerformanceObserver((list) => {
  for (const { name } of list.getEntries()) {
    if (!name.startsWith(url) && !name.endsWith("/ticket")) continue;
    const line = document.createElement("li");
    line.textContent = name;
    by("sent").append(line);
  }
}).observe({ type: "resource", buffered: true });
