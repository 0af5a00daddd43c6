// @ts-check
/** The frontier: one question at several values of a knob, as a curve and as a table. */

import { isAborted } from "./api.js";
import { invalidationRate } from "./certificate.js";
import { changeCount, wayParts } from "./counterfactual.js";
import { curveDrawing } from "./curve.js";
import { $, fill, h, scrollingTable } from "./dom.js";
import { formatNumber, outOfHundred, readable } from "./format.js";
import { FUTURE_VALIDITY, countOf, futureNoun } from "./future.js";
import { submit } from "./jobs.js";
import { problemNote } from "./problem.js";
import { frontierRequest } from "./request.js";
import { knobName, knobValue, knobValues } from "./slider.js";
import { state } from "./state.js";

/** Measures of robustness: names of the axis. */
const MEASURES = {
  future: "yes if applicants stay, of 100",
  shift: "worst-case bound, of 100",
  noise: "accepted, of 100",
};

let pending = new AbortController();

/** Ask at all values of the chosen knob, and draw the curve. */
export async function askFrontier() {
  const { signal } = (pending = new AbortController());
  $("draw").disabled = true;
  const knob = $("knob").value;
  try {
    const body = frontierRequest(knob, knobValues(knob));
    const frontier = await submit("recourse/frontier", body, $("frontier-job"), {
      background: $("background").checked,
      signal,
    });
    if (frontier !== null && !signal.aborted) showFrontier(frontier);
  } catch (problem) {
    if (isAborted(problem)) return;
    forgetCurve();
    fill("curve", problemNote(problem));
  } finally {
    $("draw").disabled = false;
  }
}

/** Mark the curve, and stop waiting for another one: the form has changed since. */
export function markCurve() {
  pending.abort();
  if (state.curve) $("curve").classList.add("outdated");
}

/** Remove the curve, and stop waiting for another one. */
export function forgetCurve() {
  pending.abort();
  state.curve = null;
  $("curve").classList.remove("outdated");
  fill("curve");
}

/** @param {any} frontier */
function showFrontier({ points, parameter, factual }) {
  const steps = points.map((/** @type {any} */ point, /** @type {number} */ i) => ({ ...point, step: i + 1 }));
  const found = steps.filter((/** @type {any} */ point) => point.counterfactual);
  const set = knobValue(parameter);
  const current = found.find((/** @type {any} */ point) => point.value === set) ?? found[0];
  state.curve = { points: steps, parameter, factual, chosen: steps.indexOf(current) };
  $("against").value = measureOf(parameter, current?.counterfactual);
  $("curve").classList.remove("outdated");
  drawFrontier();
}

/** The measure that a knob acts on. @param {string} parameter @param {any} counterfactual */
function measureOf(parameter, counterfactual) {
  if (parameter === FUTURE_VALIDITY) return "future";
  return counterfactual?.report?.kind === "invalidation" ? "noise" : "shift";
}

/** Draw the frontier that is held, for example after the window has changed its size. */
export function drawFrontier() {
  if (!state.curve) return;
  const { points, parameter, chosen, factual } = state.curve;
  const found = points.filter((point) => point.counterfactual);
  if (found.length === 0) {
    fill("curve", h("p.note", {}, points[0].detail));
    return;
  }
  const { counterfactual, step, value } = points[chosen];
  const against = $("against").value;
  const caption =
    "Each point is an answer; choose one to see its changes. For an open point, another one is at least as sure with no " +
    `more effort.${against === "future" ? " Bars show what is 95% certain." : ""} Effort adds up the changes: 1 is another ` +
    "category, or the usual difference between two people.";
  const figure = h("figure", {}, h("figcaption.hint", {}, caption));
  const at = parameter === FUTURE_VALIDITY ? `At ${formatNumber(100 * value)} in 100` : `Step ${step}`;
  const heading = h("h3", {}, `${at}: ${changeCount(counterfactual.changes)} to a yes`);
  fill(
    "curve",
    h("div.beside", {}, figure, table(state.curve)),
    h("div", { id: "chosen", role: "status" }, heading, h("article.card", {}, ...wayParts(counterfactual, factual))),
  );
  const measure = MEASURES[/** @type {"shift"} */ (against)];
  figure.prepend(curveDrawing(found.map(mark), measure, figure.clientWidth));
}

/** @param {any} point with a counterfactual */
function mark(point) {
  const i = point.step - 1;
  const { step, cost, dominated } = point;
  return {
    step,
    cost,
    dominated,
    robustness: robustness(point),
    interval: $("against").value === "future" ? (point.counterfactual.validity.future?.interval ?? null) : null,
    chosen: i === state.curve?.chosen,
    choose: () => choosePoint(i),
  };
}

/** The chosen measure of a point, from 0 to 1. @param {any} point @returns {number} */
function robustness({ counterfactual: { validity } }) {
  const { future, noise, shift } = validity;
  const against = $("against").value;
  if (against === "future") return future?.probability ?? 0;
  if (against === "shift") return shift?.gelbrich.lower ?? 0;
  return noise ? 1 - (invalidationRate(noise) ?? 1) : 0;
}

/** @param {number} i index of a point */
function choosePoint(i) {
  if (!state.curve) return;
  state.curve.chosen = i;
  drawFrontier();
}

/** The measures of the table, the chosen one and the future models'. @param {any[]} points @returns {string[]} */
const columns = (points) =>
  Object.keys(MEASURES).filter(
    (measure) =>
      measure === $("against").value ||
      (measure === "future" && points.some((point) => point.counterfactual?.validity.future)),
  );

/** The curve as a table. @param {{points: any[], parameter: string, chosen: number}} curve */
function table({ points, parameter, chosen }) {
  const shown = columns(points);
  const future = points.map((point) => point.counterfactual?.validity.future).find(Boolean);
  const titles = {
    future: `${readable(futureNoun(future?.source ?? null))} that say yes if applicants stay as they are`,
    shift: "Worst-case bound under shift, of 100",
    noise: "Accepted under noise, of 100",
  };
  const asked = parameter === FUTURE_VALIDITY ? "Asked for, of 100" : `Step (${knobName(parameter).toLowerCase()})`;
  const heads = [asked, "Effort", ...shown.map((measure) => titles[/** @type {"shift"} */ (measure)]), ""];
  const value = (/** @type {any} */ point) =>
    parameter === FUTURE_VALIDITY
      ? formatNumber(100 * point.value)
      : [`${point.step}`, h("small", {}, ` (${formatNumber(point.value)})`)];
  const rows = points.map((point, i) => row(point, i, { value: value(point), chosen: i === chosen, shown }));
  const names = { label: "The curve as a table", caption: "Effort against how sure the yes is" };
  return scrollingTable("table", names, heads, rows);
}

/** @param {any} noise */
function acceptedOfHundred(noise) {
  const rate = noise && invalidationRate(noise);
  return rate === null ? "unknown" : outOfHundred(1 - rate);
}

const CELLS = /** @type {Record<string, (validity: any) => any>} */ ({
  future: ({ future }) => future && countOf(future.probability, future.models),
  shift: ({ shift }) => shift && `${Math.floor(100 * shift.gelbrich.lower + 1e-9)}`,
  noise: ({ noise }) => acceptedOfHundred(noise),
});

/**
 * @param {any} point @param {number} i
 * @param {{value: any, chosen: boolean, shown: string[]}} parts what is varied, and the measures that are shown
 */
function row({ step, cost, counterfactual }, i, { value, chosen, shown }) {
  const { validity } = counterfactual ?? {};
  return h(
    "tr",
    { class: chosen && "chosen" },
    h("th", { scope: "row" }, ...[value].flat()),
    h("td", {}, counterfactual ? cost.toFixed(2) : "none found"),
    ...shown.map((measure) => h("td", {}, validity && CELLS[measure](validity))),
    h("td", {}, counterfactual && showButton(step, i, chosen)),
  );
}

/** @param {number} step @param {number} i @param {boolean} chosen */
function showButton(step, i, chosen) {
  const id = `point-${i}`;
  // The table is drawn again, so the focus moves to the button that replaces this one.
  const choose = () => (choosePoint(i), $(id).focus());
  return h(
    "button",
    { type: "button", id, "aria-pressed": String(chosen), onclick: choose },
    "Show",
    h("span.unseen", {}, ` the changes of step ${step}`),
  );
}
