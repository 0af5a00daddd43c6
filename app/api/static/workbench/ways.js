// @ts-check
/** Several ways to a yes as cards side by side, each with its effort and what sets it apart from those before it. */

import { changedFeatures, changeCount, wayParts } from "./counterfactual.js";
import { h } from "./dom.js";
import { counted, formatShort } from "./format.js";
import { planBounds } from "./plan.js";
import { featureNamed, state } from "./state.js";

/** @import { Wish } from "./types.d.ts" */

/** The ways of an answer, the least effort first: the members of a plan have an order of their own. @param {any} answer */
function ordered({ method, counterfactuals }) {
  const isPlan = state.methods.some(({ name, yields }) => name === method.name && yields === "plan");
  return isPlan ? [...counterfactuals].sort((a, b) => a.cost.total - b.cost.total) : counterfactuals;
}

/** @param {any} answer with counterfactuals @param {((wish: Wish) => void) | null} onWish null for no such buttons */
export function wayCards(answer, onWish = null) {
  const ways = ordered(answer);
  const cardOf = (/** @type {any} */ way, /** @type {number} */ i) =>
    card(way, ways.slice(0, i), answer.factual, onWish);
  return h("div.cards", {}, ...ways.map(cardOf));
}

/** What was found, as a title. @param {any} answer with counterfactuals */
export function waysTitle({ counterfactuals: ways }) {
  const several = ways.length > 1;
  return [
    h("h3", {}, several ? `${counted(ways.length, "way")} to a yes` : `${changeCount(ways[0].changes)} to a yes`),
    h("p.hint", {}, several && "Each is enough by itself. ", "The model itself has confirmed what is shown."),
  ];
}

/** @param {any} answer with counterfactuals @param {(wish: Wish) => void} onWish */
export const waysParts = (answer, onWish) => [
  wayCards(answer, onWish),
  answer.plan && planBounds(answer.plan, ordered(answer)),
];

/**
 * @param {any} way @param {any[]} before those that are shown before it
 * @param {any} factual @param {((wish: Wish) => void) | null} onWish
 */
function card(way, before, factual, onWish) {
  const number = before.length + 1;
  const id = `way-${number}${onWish ? "" : "-stored"}`;
  return h(
    "article.card",
    { "aria-labelledby": id, style: { "--order": String(number) } },
    h("h4.part", { id }, `Way ${number}`, h("span.unseen", {}, ", "), effort(way, before)),
    h(
      "p.part.apart",
      {},
      `${changeCount(way.changes)}${before.length === 0 ? "" : `. ${differenceText(way, before)}`}`,
    ),
    ...wayParts(way, factual, onWish),
  );
}

/** How much effort a way takes, against the first one. @param {any} way @param {any[]} before */
function effort(way, before) {
  const least = before[0]?.cost.total;
  const times = least > 0 ? formatShort(Number((way.cost.total / least).toPrecision(2))) : null;
  if (before.length === 0) return h("span.effort.least", {}, "least effort");
  return times !== null && h("span.effort", {}, times === "1" ? "same effort" : `${times} × the effort`);
}

/** What sets a way apart from the most similar one before it. @param {any} way @param {any[]} before */
function differenceText(way, before) {
  const own = changedFeatures(way.changes);
  const others = before.map(({ changes }) => changedFeatures(changes));
  const shared = others.map((names) => names.filter((name) => own.includes(name)).length);
  const k = shared.indexOf(Math.max(...shared));
  const added = labels(own.filter((name) => !others[k].includes(name)));
  const left = labels(others[k].filter((name) => !own.includes(name)));
  if (shared[k] === 0) return `Nothing in common with ${before.length === 1 ? "way 1" : "the ways before"}`;
  if (added && left) return `Unlike way ${k + 1}: ${added}, not ${left}`;
  if (added) return `As way ${k + 1}, and ${added}`;
  return left ? `As way ${k + 1}, without ${left}` : `As way ${k + 1}, to other values`;
}

/** @param {string[]} names of features */
const labels = (names) => names.map((name) => `“${featureNamed(name)?.label ?? name}”`).join(", ");
