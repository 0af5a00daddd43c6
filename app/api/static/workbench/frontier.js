/** The frontier: one question at several values of a knob, as a curve and as a table. */

import { isAborted } from "./api.js";
import { curveDrawing } from "./curve.js";
import { $, button, debounce, fill, h, table } from "./dom.js";
import { formatNumber, outOfHundred } from "./format.js";
import { problemNote, submit } from "./jobs.js";
import { knobName, knobValue, knobValues } from "./method.js";
import { invalidationRate, promisedCell, promisedHead } from "./promise.js";
import { frontierRequest } from "./request.js";
import { FUTURE_VALIDITY, state } from "./state.js";
import { changeCount, wayParts } from "./ways.js";

/** Measures of robustness: names of the axis. */
const MEASURES = {
  future: "yes if applicants stay, of 100",
  shift: "worst-case bound, of 100",
  noise: "accepted, of 100",
};

const SAME = "However sure the yes should be, the answer is the same: here, a surer one takes no more effort.";

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
    forget();
    fill("curve", problemNote(problem));
  } finally {
    $("draw").disabled = false;
  }
}

/** The form has changed since: mark the curve, and stop waiting for another one. */
$("curve").addEventListener("outdated", () => {
  pending.abort();
  if (state.curve) $("curve").classList.add("outdated");
});

$("curve").addEventListener("forgotten", forget);

addEventListener("resize", debounce(drawFrontier, 200));
$("against").onchange = drawFrontier;

/** Remove the curve, and stop waiting for another one. */
function forget() {
  pending.abort();
  state.curve = null;
  $("curve").classList.remove("outdated");
  fill("curve");
}

function showFrontier({ points, parameter, factual }) {
  const steps = points.map((point, i) => ({ ...point, step: i + 1 }));
  const found = steps.filter((point) => point.counterfactual);
  const set = knobValue(parameter);
  const current = found.find((point) => point.value === set) ?? found[0];
  state.curve = { points: steps, parameter, factual, chosen: steps.indexOf(current) };
  $("against").value = measureOf(parameter, current?.counterfactual);
  $("curve").classList.remove("outdated");
  drawFrontier();
}

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
    fill("curve", h("p.note", points[0].detail));
    return;
  }
  const { counterfactual, step, value } = points[chosen];
  const against = $("against").value;
  const caption =
    "Each point is an answer; choose one to see its changes. For an open point, another one is at least as sure with no " +
    `more effort.${against === "future" ? " Bars show what is 95% certain." : ""} Effort adds up the changes: 1 is another ` +
    "category, or the usual difference between two people.";
  const figure = h("figure", h("figcaption.hint", caption));
  const at = parameter === FUTURE_VALIDITY ? `At ${formatNumber(100 * value)} in 100` : `Step ${step}`;
  const heading = h("h3", `${at}: ${changeCount(counterfactual.changes)} to a yes`);
  const records = new Set(points.map((point) => JSON.stringify(point.counterfactual?.applicant)));
  fill(
    "curve",
    points.length > 1 && records.size === 1 && h("p.note", SAME),
    h("div.beside", figure, curveTable(state.curve)),
    h("div", { id: "chosen", role: "status" }, heading, h("article.card", ...wayParts(counterfactual, factual))),
  );
  const measure = MEASURES[against];
  figure.prepend(curveDrawing(found.map(mark), measure, figure.clientWidth));
}

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

/** The chosen measure of a point, from 0 to 1. */
function robustness({ counterfactual: { validity } }) {
  const { future, noise, shift } = validity;
  const against = $("against").value;
  if (against === "future") return future?.probability ?? 0;
  if (against === "shift") return shift?.gelbrich.lower ?? 0;
  return noise ? 1 - (invalidationRate(noise) ?? 1) : 0;
}

function choosePoint(i) {
  if (!state.curve) return;
  state.curve.chosen = i;
  drawFrontier();
}

/** The measures of the table, the chosen one and the future models'. */
const columns = (points) =>
  Object.keys(MEASURES).filter(
    (measure) =>
      measure === $("against").value ||
      (measure === "future" && points.some((point) => point.counterfactual?.validity.future)),
  );

function curveTable({ points, parameter, chosen }) {
  const shown = columns(points);
  const future = points.map((point) => point.counterfactual?.validity.future).find(Boolean);
  const titles = {
    future: future && promisedHead(future),
    shift: "Worst-case bound under shift, of 100",
    noise: "Accepted under noise, of 100",
  };
  const byShare = parameter === FUTURE_VALIDITY;
  const asked = byShare ? "Asked for, of 100" : `Step (${knobName(parameter).toLowerCase()})`;
  const rows = points.map(({ step, cost, value, counterfactual }, i) => [
    byShare ? formatNumber(100 * value) : [`${step}`, h("small", ` (${formatNumber(value)})`)],
    counterfactual ? cost.toFixed(2) : "none found",
    ...shown.map((measure) => counterfactual && CELLS[measure](counterfactual.validity)),
    counterfactual && showButton(step, i, i === chosen),
  ]);
  const names = { label: "The curve as a table", caption: "Effort against how sure the yes is" };
  return table(names, [asked, "Effort", ...shown.map((measure) => titles[measure]), ""], rows);
}

const CELLS = {
  future: ({ future }) => future && promisedCell(future),
  shift: ({ shift }) => shift && `${Math.floor(100 * shift.gelbrich.lower + 1e-9)}`,
  noise: ({ noise }) => acceptedOfHundred(noise),
};

function acceptedOfHundred(noise) {
  const rate = noise && invalidationRate(noise);
  return rate === null ? "unknown" : outOfHundred(1 - rate);
}

function showButton(step, i, chosen) {
  const id = `point-${i}`;
  // The table is drawn again, so the focus moves to the button that replaces this one.
  const choose = () => (choosePoint(i), $(id).focus());
  return button("Show", choose, {
    id,
    "aria-pressed": String(chosen),
    "aria-label": `Show the changes of step ${step}`,
  });
}
