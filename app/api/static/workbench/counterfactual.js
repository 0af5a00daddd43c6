// @ts-check
/** One counterfactual: how sure it is, what to change, what each change brings, and for specialists its certificate. */

import { certificate, promise } from "./certificate.js";
import { h } from "./dom.js";
import { counted, formatMonths, formatShort, formatValue } from "./format.js";
import { readyFutures } from "./future.js";
import { baseFeatures, derivedFeatures, state } from "./state.js";
import { passes, path } from "./steps.js";

/** @import { Wish } from "./types.d.ts" */

/**
 * The parts of one counterfactual, always as many, so that they line up where several stand side by side.
 * @param {any} counterfactual @param {any} factual the decision on the applicant now
 * @param {((wish: Wish) => void) | null} onWish where the person rules out a change; null for no such buttons
 * @returns {any[]}
 */
export function wayParts(counterfactual, factual, onWish = null) {
  const { cost, takes_months: months, validity } = counterfactual;
  return [
    h("div.part", {}, promise(validity.future, readyFutures()?.agreement ?? null)),
    h(
      "div.part",
      {},
      path(counterfactual, factual, onWish),
      followList(counterfactual),
      months > 0 && h("p.takes", {}, `It takes about ${formatMonths(months)}.`),
    ),
    h(
      "details.specialists.part",
      {},
      h("summary", {}, "For specialists"),
      certificate(counterfactual),
      h(
        "p.hint",
        {},
        `Cost: ${formatShort(cost.total)}. The sum of all changes, in how far apart people are, with the lender’s weights; a ` +
          "change of category counts 1.",
      ),
    ),
  ];
}

/** The features that the person changes. @param {any[]} changes @returns {string[]} */
export const changedFeatures = (changes) => changes.filter((change) => !passes(change)).map(({ feature }) => feature);

/** How many changes the person makes. @param {any[]} changes */
export const changeCount = (changes) => counted(changedFeatures(changes).length, "change");

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
