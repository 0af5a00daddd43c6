/** What is promised of future models, as a statement with a bar. */

import { h } from "./dom.js";
import { inHundred, readable } from "./format.js";
import { futureNoun, readyFutures } from "./state.js";

/** What is promised about retraining; null where nothing is. */
export const promise = (future) => future && h("dl.certificate.promise", ...futureEntry(future));

/** How like the model its stand-ins are. */
function agreeing({ source }) {
  const agreement = readyFutures()?.agreement ?? null;
  return source === "stand_in" && agreement !== null
    ? `Stand-in models agree with this model on ${inHundred(agreement)} records.`
    : "";
}

/** The share of future models that is promised: what was kept before, where that is less than what is measured now. */
function promised({ measured, kept_before: before, interval }) {
  const share = measured?.share ?? interval[0];
  if (before && before.share < share) return before;
  return { share, interval: measured ? undefined : interval };
}

/** The head of a column with such shares: what is counted, and on which condition. */
export const promisedHead = ({ source, records }) =>
  `${readable(futureNoun(source))} that accept this if ` +
  `${records === "same" ? "the model is trained again on the same records" : "applicants stay as they are"}, of 100`;

/** A cell of that column. */
export function promisedCell(future) {
  const [least, most] = [Math.floor(100 * promised(future).share + 1e-9), Math.ceil(100 * future.interval[1] - 1e-9)];
  return most < 50 ? `at most ${most}` : least > 0 ? `at least ${least}` : "not known";
}

export function futureEntry(future) {
  const { share, interval } = promised(future);
  const drawn = { interval, asked: future.asked };
  return entry("If the lender trains its model again", share, future.promise, agreeing(future), drawn);
}

/** Share of noisy copies that get a no: measured, else from the model's slope, else null. */
export const invalidationRate = (noise) => noise.monte_carlo ?? noise.closed_form;

/**
 * One statement of the certificate.
 * @param share from 0 to 1, drawn as a bar
 * @param drawn the interval of the share, and what was asked for
 */
export const entry = (term, share, text, source, drawn = {}) => [
  h("dt", term),
  h("dd", shareBar(Math.max(0, share), drawn), text, source && h("small.hint", ` ${source}`)),
];

/** A share as a bar: green where it is as much as was asked for, red where it is less than a half. */
function shareBar(share, { interval, asked = null }) {
  const [low, high] = interval ?? [0, 0];
  const style = { "--share": `${100 * share}%`, "--low": `${100 * low}%`, "--high": `${100 * high}%` };
  const kind = asked === null ? "" : share >= asked ? ".good" : share >= 0.5 ? ".fair" : ".poor";
  return h(`span.share${kind}`, { "aria-hidden": "true", style }, h("i"), interval && h("b"));
}
