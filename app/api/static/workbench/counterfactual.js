// @ts-check
/** One counterfactual: what to change, the time it takes, the model's decision then, its certificate and its cost. */

import { certificate, promise } from "./certificate.js";
import { chance, scale } from "./decision.js";
import { h } from "./dom.js";
import { along } from "./feature.js";
import { counted, formatMonths, formatShort, formatValue } from "./format.js";
import { readyFutures } from "./future.js";
import { baseFeatures, derivedFeatures, featureNamed, state } from "./state.js";
import { stepsPath } from "./steps.js";
import { wishButtons } from "./wishes.js";

/** @import { Wish } from "./types.d.ts" */

/**
 * The parts of one counterfactual, always as many, so that they line up where several stand side by side.
 * @param {any} counterfactual @param {any} factual the decision on the applicant now
 * @param {((wish: Wish) => void) | null} onWish where the person rules out a change; null for no such buttons
 * @returns {any[]}
 */
export function wayParts(counterfactual, factual, onWish = null) {
  const { changes, validity, cost, takes_months: months } = counterfactual;
  const agreement = readyFutures()?.agreement ?? null;
  return [
    h("div.part", {}, changeList(changes, onWish), followList(counterfactual)),
    h("div.part", {}, months > 0 && h("p", {}, `It takes about ${formatMonths(months)}.`)),
    h(
      "div.part",
      {},
      h("p", {}, `The model then says yes: ${chance(validity.current)}, instead of ${chance(factual)}.`),
      scale([factual.probability, validity.current.probability]),
    ),
    h("div.part", {}, promise(validity.future, agreement)),
    h("div.part", {}, stepsPath(counterfactual, factual)),
    h("p.hint.part", {}, `Cost: ${formatShort(cost.total)}`),
    specialists(counterfactual),
  ];
}

/** The rest of the certificate, folded. @param {any} counterfactual */
const specialists = (counterfactual) =>
  h(
    "details.specialists.part",
    {},
    h("summary", {}, "For specialists"),
    certificate(counterfactual),
    h(
      "p.hint",
      {},
      "Cost is the sum of all changes, in how far apart people are, with the lender’s weights. A change of category " +
        "counts 1.",
    ),
  );

/** What only time changes. @param {any} change */
const passes = ({ feature }) => (featureNamed(feature)?.moves_with_time ?? null) !== null;

/** The features that the person changes. @param {any[]} changes @returns {string[]} */
export const changedFeatures = (changes) => changes.filter((change) => !passes(change)).map(({ feature }) => feature);

/** How many changes the person makes. @param {any[]} changes */
export const changeCount = (changes) => counted(changedFeatures(changes).length, "change");

/**
 * What the person changes, then what time does by itself.
 * @param {any[]} changes @param {((wish: Wish) => void) | null} onWish
 */
export const changeList = (changes, onWish = null) =>
  h(
    "div.all-changes",
    {},
    h("ol.changes", {}, ...changes.filter((change) => !passes(change)).map((change) => changeItem(change, onWish))),
    ...changes.filter(passes).map(({ text }) => h("p.hint", {}, `By itself: ${text}`)),
  );

/** Derived features that become others with the record in the form. @param {any} counterfactual */
function followList({ applicant, changes }) {
  const { whole } = state;
  const before = { ...applicant };
  for (const { feature, from } of changes) before[feature] = from;
  if (baseFeatures().some(({ name }) => whole[name] !== before[name])) return null;
  const changed = derivedFeatures().filter(({ name }) => whole[name] !== applicant[name]);
  const items = changed.map((feature) => {
    const [from, to] = [whole, applicant].map(({ [feature.name]: value }) => formatValue(feature, value));
    return h("li", {}, `${feature.label}: from ${from} to ${to}`);
  });
  return items.length > 0 && h("div", {}, h("p", {}, "What follows from it:"), h("ul.follows", {}, ...items));
}

/**
 * A change as a sentence, and as a move along the range of its feature.
 * @param {any} change @param {((wish: Wish) => void) | null} onWish
 */
function changeItem(change, onWish) {
  const { text, feature: name, from, to, takes_months: months } = change;
  const feature = featureNamed(name);
  const [start, end] = feature ? [along(feature, from), along(feature, to)] : [null, null];
  const takes = months > 0 && h("small.hint", {}, ` takes about ${formatMonths(months)}`);
  const move = start !== null && end !== null && moveBar(start, end);
  return h("li", {}, text, takes, move, onWish && wishButtons(change, onWish));
}

/** @param {number} from @param {number} to both from 0 to 1 */
function moveBar(from, to) {
  const place = (/** @type {number} */ share) => `${100 * Math.min(1, Math.max(0, share))}%`;
  const ends = { "--from": place(Math.min(from, to)), "--to": place(Math.max(from, to)) };
  return h(to < from ? "div.move.down" : "div.move", { "aria-hidden": "true", style: ends }, h("i"));
}
