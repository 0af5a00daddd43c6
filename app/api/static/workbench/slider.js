// @ts-check
/**
 * The slider from the lowest cost to the most robust: it sets the share of future models that must say yes or, without
 * future models, the first knob of the method.
 */

import { $, fill, h } from "./dom.js";
import { inHundred, readable } from "./format.js";
import { FUTURE_VALIDITY, futureNoun, readyFutures } from "./future.js";
import { controlOf } from "./schema_form.js";
import { chosenMethod, state } from "./state.js";
import { checkTyped } from "./typed.js";

const FACTORS = [0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];

/** Shares of the future models, from the lowest cost to the most robust. */
const SHARES = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1];

/** The share that an answer is asked for at first. */
export const STANDARD_SHARE = 0.9;

/** Measures of robustness on the curve. */
const MEASURES = { shift: "worst-case bound under shift", noise: "share accepted under noise" };

/** What can be varied, the knob of the slider first. @returns {string[]} */
const knobs = () => [...(readyFutures() ? [FUTURE_VALIDITY] : []), ...chosenMethod().knobs];

/** Values of a knob around its default, from the lowest cost to the most robust. @param {string} knob */
export function knobValues(knob) {
  if (knob === FUTURE_VALIDITY) return SHARES;
  const method = chosenMethod();
  const schema = method.parameters.properties[knob];
  const {
    minimum = -Infinity,
    maximum = Infinity,
    exclusiveMinimum = -Infinity,
    exclusiveMaximum = Infinity,
  } = controlOf(schema).number;
  const standard = typeof schema.default === "number" && schema.default > 0 ? schema.default : 0.3;
  const allowed = (/** @type {number} */ v) =>
    v >= minimum && v <= maximum && v > exclusiveMinimum && v < exclusiveMaximum;
  const values = FACTORS.map((factor) => Number((standard * factor).toPrecision(2))).filter(allowed);
  return method.robust_when[knob] === "larger" ? values : values.reverse();
}

/** The value of a knob on the page now. @param {string} knob */
export const knobValue = (knob) => (knob === FUTURE_VALIDITY ? state.share : Number($(`p-${knob}`).value));

/** Offer the slider, and the curve's knobs and measures; hide the slider where there is no knob. */
export function offerKnobs() {
  const all = knobs();
  const noun = futureNoun(readyFutures()?.source ?? null);
  const measures = { ...(readyFutures() && { future: `share of ${noun} that say yes if applicants stay as they are` }), ...MEASURES };
  fill("knob", ...all.map((knob) => h("option", { value: knob }, knobName(knob))));
  const measure = $("against").value;
  fill("against", ...Object.entries(measures).map(([value, text]) => h("option", { value }, text)));
  // The curve on the page is drawn by it.
  if (measure in measures) $("against").value = measure;
  $("slider-panel").hidden = all.length === 0;
  // Nothing can be varied, so there is no curve.
  if (all.length === 0) $("frontier").hidden = true;
  if (all.length > 0) followParameter(all[0]);
}

/** @param {string} knob @returns {string} in words */
export const knobName = (knob) =>
  knob === FUTURE_VALIDITY ? `Share of ${futureNoun(readyFutures()?.source ?? null)}` : readable(knob);

/** Let the slider show the value of its knob. @param {string} name of the knob that has changed */
export function followParameter(name) {
  const [knob] = knobs();
  if (name !== knob) return;
  const values = knobValues(knob);
  const value = knobValue(knob);
  const distances = values.map((v) => Math.abs(v - value));
  $("slider").max = values.length - 1;
  $("slider").value = distances.indexOf(Math.min(...distances));
  describe(knob, value);
}

/** Let the knob take the value of the slider. */
export function followSlider() {
  const [knob] = knobs();
  const value = knobValues(knob)[Number($("slider").value)];
  if (knob === FUTURE_VALIDITY) state.share = value;
  else $(`p-${knob}`).value = value;
  describe(knob, value);
}

/** Let the knob take the number that was typed; one that is wrong is left to be corrected. */
export function followTyped() {
  const [knob] = knobs();
  if (!checkTyped($("slider-value"))) return;
  const { value } = $("slider-value");
  if (value !== "" && knob !== FUTURE_VALIDITY) $(`p-${knob}`).value = knobValues(knob)[Number(value) - 1];
  if (value !== "" && knob === FUTURE_VALIDITY) state.share = Number(value) / 100;
  followParameter(knob);
}

/**
 * Show the setting as a number that can be typed: the share, or the step where there is none.
 * @param {string} knob @param {number} value
 */
function describe(knob, value) {
  const share = knob === FUTURE_VALIDITY;
  const [step, steps] = [Number($("slider").value) + 1, Number($("slider").max) + 1];
  const position = `Step ${step} of ${steps}`;
  const typed = share
    ? { min: 1, max: 100, step: "any", value: Number((100 * value).toFixed(4)) }
    : { min: 1, max: steps, step: "1", value: step };
  Object.assign($("slider-value"), typed);
  checkTyped($("slider-value"));
  $("slider-value").setAttribute("aria-label", share ? "How sure, of 100 retrained models" : `Step, of ${steps}`);
  $("slider-unit").textContent = share ? "in 100" : `of ${steps}`;
  const future = knob === FUTURE_VALIDITY && `at least ${shareText(value)}`;
  $("slider").setAttribute("aria-valuetext", future || position);
  $("slider-hint").textContent = future
    ? `A yes now and, if applicants stay as they are, from ${future} like it. Surer usually takes more effort.`
    : `${position}. A higher step is surer and usually takes more effort. Nothing is known about the lender’s next model.`;
}

/** @param {number} share of the future models */
const shareText = (share) => `${inHundred(share)} ${futureNoun(readyFutures()?.source ?? null)}`;
