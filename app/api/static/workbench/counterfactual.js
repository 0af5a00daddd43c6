// @ts-check
/** One counterfactual: what to change, the model's decision then, its certificate and its cost. */

import { certificate } from "./certificate.js";
import { chance, scale } from "./decision.js";
import { followList } from "./derived.js";
import { h } from "./dom.js";
import { along } from "./feature.js";
import { counted, formatMonths, formatShort } from "./format.js";
import { readyFutures } from "./future.js";
import { featureNamed } from "./state.js";

/** @param {any} counterfactual @param {any} factual the decision on the applicant now */
export function counterfactualParts(counterfactual, factual) {
  const { changes, validity, cost, takes_months: months } = counterfactual;
  return [
    changeList(changes),
    followList(counterfactual),
    months > 0 && h("p", {}, `It takes about ${formatMonths(months)}.`),
    h("p", {}, `The model then says yes: ${chance(validity.current)}, instead of ${chance(factual)}.`),
    scale([factual.probability, validity.current.probability]),
    certificate(counterfactual, readyFutures()?.agreement),
    h(
      "p.hint",
      {},
      h("b", {}, `Cost: ${formatShort(cost.total)}.`),
      " The sum of all changes, in how far apart people are, with the lender’s weights. A change of category counts 1.",
    ),
  ];
}

/** What only time changes. @param {any} change */
const passes = ({ feature }) => (featureNamed(feature)?.moves_with_time ?? null) !== null;

/** How many changes the person makes. @param {any[]} changes */
export const changeCount = (changes) => counted(changes.filter((change) => !passes(change)).length, "change");

/** What the person changes, then what time does by itself. @param {any[]} changes */
export const changeList = (changes) =>
  h(
    "div.all-changes",
    {},
    h("ol.changes", {}, ...changes.filter((change) => !passes(change)).map(changeItem)),
    ...changes.filter(passes).map(({ text }) => h("p.hint", {}, `By itself: ${text}`)),
  );

/** A change as a sentence, and as a move along the range of its feature. @param {any} change */
function changeItem({ text, feature: name, from, to, takes_months: months }) {
  const feature = featureNamed(name);
  const [start, end] = feature ? [along(feature, from), along(feature, to)] : [null, null];
  const takes = months > 0 && h("small.hint", {}, ` takes about ${formatMonths(months)}`);
  return h("li", {}, text, takes, start !== null && end !== null && moveBar(start, end));
}

/** @param {number} from @param {number} to both from 0 to 1 */
function moveBar(from, to) {
  const place = (/** @type {number} */ share) => `${100 * Math.min(1, Math.max(0, share))}%`;
  const ends = { "--from": place(Math.min(from, to)), "--to": place(Math.max(from, to)) };
  return h(to < from ? "div.move.down" : "div.move", { "aria-hidden": "true", style: ends }, h("i"));
}
