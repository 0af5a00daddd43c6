/** The certificate of a counterfactual, for specialists: what future models say, its bounds under shift and noise. */

import { fetchJson } from "./api.js";
import { axes } from "./curve.js";
import { $, forSpecialists, h, svg } from "./dom.js";
import {
  confidence,
  formatNumber,
  formatShort,
  inHundred,
  lowerBound,
  outOfHundred,
  readable,
  upperBound,
} from "./format.js";
import { problemNote, runJob } from "./jobs.js";
import { entry, invalidationRate } from "./promise.js";
import { futureSource, stressName } from "./state.js";

/** Where the moments behind a bound come from. */
const ESTIMATES = {
  surrogate: "estimated on the local surrogate",
  registered: "estimated from refits on the reference records",
  ensemble: "estimated from the model’s active versions",
  future: "estimated from future models",
  isotropic: "with one assumed variance for all weights",
};

/** What a bound under shift rests on. @param shift as in the certificate */
function estimateText({ gelbrich: { moments }, estimated }) {
  const about = "around the model’s own weights";
  if (!estimated) return moments === "isotropic" ? `${about}, ${ESTIMATES.isotropic}` : about;
  return ESTIMATES[moments] ?? `estimated: ${moments}`;
}

export function certificate({ validity: { noise, shift, joint, future }, report }) {
  const estimate = shift && estimateText(shift);
  const entries = [
    ...(future ? [h("dt", "How retraining is measured"), h("dd", futureSource(future))] : []),
    ...(future?.stressed ? stressEntry(future.stressed) : []),
    ...noiseEntry(noise),
    ...(shift ? shiftEntry(shift.gelbrich, estimate) : []),
    ...(shift ? jointEntry(joint, shift.gelbrich.lower, estimate) : []),
    ...reportEntry(report),
  ];
  return h("div.way", entries.length > 0 && h("dl.certificate", ...entries), !shift && h("p.note", NO_SURROGATE));
}

const NO_SURROGATE =
  "No bounds: the decisions near this applicant show no clear boundary, so there is no local surrogate.";

/** Room for the curve of strength, in pixels. */
const CURVE_WIDTH = 280;

/** How far applicants may change: the curve of strength, and in words. */
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
  return [h("dt", "If applicants change"), h("dd", h("figure", drawing, h("figcaption.hint", text)))];
}

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

/** The interval of the accepted share, from that of the refused one. */
const accepted = ([low, high]) => [1 - high, 1 - low];

function noiseEntry(noise) {
  const rate = noise && invalidationRate(noise);
  if (rate === null) return [];
  const size = `Noise: ${noiseText(noise.std)}.`;
  return entry(
    "If the targets are missed a little",
    1 - rate,
    `${readable(inHundred(1 - rate))} inexact copies of this record get a yes.`,
    noise.monte_carlo === null
      ? `Estimated from the slope of the model. ${size}`
      : `Measured on the model. ${confidence(accepted(noise.interval))}. ${size}`,
  );
}

/**
 * @param joint null where the model offers no slope
 * @param shift the bound under shift alone: where that is 0, no more is claimed of both
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

/** What the method itself reports. */
function reportEntry(report) {
  if (report?.kind !== "invalidation") return [];
  const { rate, target, interval, samples } = report;
  return entry(
    "What the method measured",
    1 - rate,
    `${readable(inHundred(1 - rate))} inexact copies get a yes; the target is at least ${inHundred(1 - target)}.`,
    `Measured on the model with ${formatNumber(samples)} copies. ${confidence(accepted(interval))}.`,
  );
}

const noiseText = (std) =>
  typeof std === "number" ? `standard deviation ${formatShort(std)} in standardised units` : "as set for each number";

/** Put the bounds of a plan into the page, in place of `place`; the exact one once its job has computed it. */
export function showBounds(place, plan, members) {
  place.replaceWith(planBounds(plan, members));
  if (plan.validity.status === "pending") followBounds(plan.validity.job);
}

function planBounds({ validity: { future, ...bounds } }, members) {
  return h(
    "div.note",
    { id: "together" },
    h("p", h("b", "All ways together")),
    future && h("p", future.promise, h("small.hint", ` ${futureSource(future)}`)),
    forSpecialists(boundPart(bounds, members)),
    h("div", { id: "bounds-job" }),
  );
}

function boundPart({ lower, upper, exact, status }, members) {
  const { shift } = members[0].validity;
  const estimate = shift ? estimateText(shift) : "estimated";
  const text = `Worst-case bound under shift for all ${members.length} at once (${estimate}): ${lowerBound(lower)}`;
  const better = status === "complete" ? "" : ` The exact bound is at most ${upperBound(upper)}.`;
  return h("p", `${text}.${exact ? " This bound is exact." : better}`);
}

/** Show the exact bound of the plan on the page once its job has computed it. @param job address of the job */
async function followBounds(job) {
  // Another answer may be on the page by then.
  const shown = $("together");
  const place = $("bounds-job");
  try {
    const result = await runJob(await fetchJson(job), place);
    if (result?.plan && shown.isConnected) shown.replaceWith(planBounds(result.plan, result.counterfactuals));
  } catch (problem) {
    place.replaceChildren(problemNote(problem));
  }
}
