// @ts-check
/** The certificate of a counterfactual: what future models say; for specialists, its bounds under shift and noise. */

import { axes } from "./curve.js";
import { h, svg } from "./dom.js";
import { confidence, formatNumber, formatShort, inHundred, lowerBound, outOfHundred } from "./format.js";
import { futureSource, stressName } from "./future.js";

/** @import { FutureCertificate, Stressed } from "./types.d.ts" */

/** Where the moments behind a bound come from. */
const ESTIMATES = {
  surrogate: "estimated on the local surrogate",
  registered: "estimated from refits on the reference records",
  ensemble: "estimated from the model’s active versions",
  future: "estimated from future models",
  isotropic: "with one assumed variance for all weights",
};

/** What a bound under shift rests on. @param {any} shift as in the certificate @returns {string} */
export function estimateText({ gelbrich: { moments }, estimated }) {
  const about = "around the model’s own weights";
  if (!estimated) return moments === "isotropic" ? `${about}, ${ESTIMATES.isotropic}` : about;
  return ESTIMATES[/** @type {"surrogate"} */ (moments)] ?? `estimated: ${moments}`;
}

/** Share of noisy copies that get a no: measured, else from the model's slope, else null. @param {any} noise */
export const invalidationRate = (noise) => noise.monte_carlo ?? noise.closed_form;

/**
 * What is promised about retraining; null where nothing is.
 * @param {FutureCertificate | null} future @param {number | null} agreement of the future models with the model, if it is
 *   known
 */
export const promise = (future, agreement) =>
  future && h("dl.certificate.promise", {}, ...futureEntry(future, agreement));

/** The bounds and estimates, with their sources. @param {any} counterfactual */
export function certificate({ validity: { noise, shift, joint, future }, report }) {
  const estimate = shift && estimateText(shift);
  const entries = [
    ...(future ? [h("dt", {}, "How retraining is measured"), h("dd", {}, futureSource(future))] : []),
    ...(future?.stressed ? stressEntry(future.stressed) : []),
    ...noiseEntry(noise),
    ...(shift ? shiftEntry(shift.gelbrich, estimate) : []),
    ...(shift ? jointEntry(joint, shift.gelbrich.lower, estimate) : []),
    ...reportEntry(report),
  ];
  return h("div.way", {}, entries.length > 0 && h("dl.certificate", {}, ...entries), !shift && NO_SURROGATE());
}

const NO_SURROGATE = () =>
  h(
    "p.note",
    {},
    "No bounds: the decisions near this applicant show no clear boundary, so there is no local surrogate.",
  );

/** Room for the curve of strength, in pixels. */
const CURVE_WIDTH = 280;

/** How far applicants may change: the curve of strength, and in words. @param {Stressed} stressed */
function stressEntry(stressed) {
  const { curve, models } = stressed;
  const { x, y, drawing } = axes(
    curve.map(({ strength }) => strength),
    ["how far applicants change", "models that accept, of 100"],
    CURVE_WIDTH,
  );
  const line = curve.map(({ strength, share }, i) => `${i ? "L" : "M"}${x(strength)} ${y(share)}`).join("");
  drawing.append(svg("path", { class: "line", d: line }));
  const shares = curve.map(({ strength, share }) => `${outOfHundred(share)} at ${formatShort(strength)}`).join(", ");
  const text =
    `If applicants change so far, models of 100 that accept this: ${shares}. At 1, half of the applicants are left out, ` +
    `or the odds of a good outcome are halved or doubled. Hardest of the changes tried: more ${stressName(stressed)}, ` +
    `with ${models} models. How likely it is, nobody knows.`;
  return [h("dt", {}, "If applicants change"), h("dd", {}, h("figure", {}, drawing, h("figcaption.hint", {}, text)))];
}

/** How like the model its stand-ins are. @param {FutureCertificate} future @param {number | null} agreement */
const agreeing = ({ source }, agreement) =>
  source === "stand_in" && agreement !== null
    ? `Stand-in models agree with this model on ${Math.round(100 * agreement)}% of records.`
    : "";

/** @param {FutureCertificate} future @param {number | null} agreement */
export function futureEntry(future, agreement) {
  const { measured, kept_before: before, interval } = future;
  const promised = measured?.share ?? interval[0];
  const less = before && before.share < promised ? before : null;
  return entry(
    "If the lender trains its model again",
    less?.share ?? promised,
    future.promise,
    agreeing(future, agreement),
    { interval: less?.interval ?? (measured ? undefined : interval), asked: future.asked },
  );
}

/** @param {any} gelbrich @param {string} estimate */
const shiftEntry = ({ lower, radius, moments }, estimate) =>
  entry(
    "If the model shifts",
    lower,
    `Worst-case bound under shift (${estimate}): ${lowerBound(lower)}.`,
    (lower > 0 ? "" : "Zero does not mean a no: this bound is too wide to say anything. ") +
      (moments === "future"
        ? "Least probability of a yes over all distributions of scores with one peak, symmetric around it, within "
        : "Least probability of a yes over all distributions of weights within ") +
      `${formatShort(radius)} of the estimate. ` +
      "Not a measured share of retrained models.",
  );

/**
 * The interval of the accepted share, from that of the refused one.
 * @param {[number, number]} refused @returns {[number, number]}
 */
const accepted = ([low, high]) => [1 - high, 1 - low];

/** @param {any} noise null where nothing is known about it */
function noiseEntry(noise) {
  const rate = noise && invalidationRate(noise);
  if (rate === null) return [];
  const size = `Noise: ${noiseText(noise.std)}.`;
  return entry(
    "If the targets are missed a little",
    1 - rate,
    `${capitalised(inHundred(1 - rate))} inexact copies of this record get a yes.`,
    noise.monte_carlo === null
      ? `Estimated from the slope of the model. ${size}`
      : `Measured on the model. ${confidence(accepted(noise.interval))}. ${size}`,
  );
}

/**
 * @param {any} joint null where the model offers no slope
 * @param {number} shift the bound under shift alone: where that is 0, no more is claimed of both
 * @param {string} estimate
 */
function jointEntry(joint, shift, estimate) {
  if (!joint || shift <= 0) return [];
  const lower = Math.max(0, Math.min(joint.interval[0], shift));
  return entry(
    "If both happen",
    lower,
    `Worst-case bound under noise and shift (${estimate}): ${lowerBound(lower)}.`,
    "Lower end of a 95% confidence interval, from random draws of the noise.",
  );
}

/** What the method itself reports. @param {any} report */
function reportEntry(report) {
  if (report?.kind !== "invalidation") return [];
  const { rate, target, interval, samples } = report;
  return entry(
    "What the method measured",
    1 - rate,
    `${capitalised(inHundred(1 - rate))} inexact copies get a yes; the target is at least ${inHundred(1 - target)}.`,
    `Measured on the model with ${formatNumber(samples)} copies. ${confidence(accepted(interval))}.`,
  );
}

/**
 * One statement of the certificate.
 * @param {string} term @param {number} share from 0 to 1, drawn as a bar @param {string} text @param {string} source
 * @param {{interval?: [number, number], asked?: number | null}} [drawn] the interval of the share, and what was asked for
 */
const entry = (term, share, text, source, drawn = {}) => [
  h("dt", {}, term),
  h("dd", {}, shareBar(Math.max(0, share), drawn), text, source && h("small.hint", {}, ` ${source}`)),
];

/**
 * A share as a bar: green where it is as much as was asked for, red where it is less than a half.
 * @param {number} share @param {{interval?: [number, number], asked?: number | null}} drawn
 */
function shareBar(share, { interval, asked = null }) {
  const [low, high] = interval ?? [0, 0];
  const style = { "--share": `${100 * share}%`, "--low": `${100 * low}%`, "--high": `${100 * high}%` };
  const kind = asked === null ? "" : share >= asked ? ".good" : share >= 0.5 ? ".fair" : ".poor";
  return h(`span.share${kind}`, { "aria-hidden": "true", style }, h("i"), interval && h("b"));
}

/** @param {string} text */
const capitalised = (text) => text[0].toUpperCase() + text.slice(1);

/** @param {number | Record<string, number>} std in standardised units */
const noiseText = (std) =>
  typeof std === "number" ? `standard deviation ${formatShort(std)} in standardised units` : "as set for each number";
