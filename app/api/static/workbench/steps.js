// @ts-check
/** A way as a path: the model's probability after each change, in the order in which each helps most. */

import { outcome } from "./decision.js";
import { h } from "./dom.js";
import { formatValue, inHundred } from "./format.js";
import { featureNamed, threshold } from "./state.js";

/**
 * @param {any} counterfactual @param {any} factual the decision on the applicant now
 * @returns {any} null for a single change
 */
export function stepsPath({ steps, changes }, factual) {
  if (!steps) return null;
  const at = threshold();
  const legs = steps.map((/** @type {any} */ step, /** @type {number} */ i) =>
    leg(stepText(step, changes), step, i === 0 ? factual : steps[i - 1]),
  );
  return h(
    "div.path",
    { style: at === null ? {} : { "--at": `${100 * at}%` } },
    h("p.small-title", {}, "Step by step"),
    h("ol", {}, leg("Now", factual, null), ...legs),
  );
}

/** A change in a few words. @param {any} step @param {any[]} changes */
function stepText({ feature: name, text }, changes) {
  const feature = featureNamed(name);
  const change = changes.find((one) => one.feature === name);
  return feature && change ? `${feature.label}: ${formatValue(feature, change.to)}` : text;
}

/** One step of the path. @param {string} text @param {any} decision after it @param {any} before null at the start */
function leg(text, decision, before) {
  const { probability, favourable } = decision;
  return h(
    favourable ? "li.reached" : "li",
    {},
    h("span", {}, text),
    h("span.after", {}, probability !== null && inHundred(probability), " ", outcome(favourable)),
    probability !== null && legBar(before?.probability ?? probability, probability),
  );
}

/** @param {number} from @param {number} to both from 0 to 1 */
function legBar(from, to) {
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  const style = { "--from": `${100 * low}%`, "--to": `${100 * high}%`, "--end": `${100 * to}%` };
  return h("span.leg", { "aria-hidden": "true", style }, h("i"), h("b"));
}
