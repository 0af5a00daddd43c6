// @ts-check
/** An answer to the question: changes that lead to a yes, a yes already, or why no way was found. */

import { futureEntry } from "./certificate.js";
import { chance, scale } from "./decision.js";
import { $, fill, h } from "./dom.js";
import { counted, formatDate, formatNumber, formatShort, inHundred } from "./format.js";
import { readyFutures } from "./future.js";
import { storeForm } from "./ledger.js";
import { offerPart } from "./offers.js";
import { followBounds } from "./plan.js";
import { reasonsPart } from "./reasons.js";
import { featureNamed } from "./state.js";
import { changeList } from "./steps.js";
import { waysParts, waysTitle } from "./ways.js";

/** @import { Asked, Relaxation, Wish } from "./types.d.ts" */

/**
 * @typedef {object} Actions of the buttons in an answer
 * @property {(relaxation: Relaxation) => void} removeLimit
 * @property {() => void} takeLonger
 * @property {(wish: Wish) => void} wish
 */

/** @param {any} answer @param {Asked} asked the request behind it @param {Actions} actions */
export function showAnswer(answer, asked, actions) {
  $("answer-body").classList.remove("outdated");
  fill(
    "answer-body",
    ...answerParts(answer, asked.body, actions),
    secondLook(answer.factual?.future),
    warningNote(answer.warnings),
    answer.status !== "already_favourable" && storeForm(answer, asked),
    provenance(answer),
  );
  $("answer-status").textContent = $("answer-body").querySelector("h3")?.textContent ?? "";
  const bounds = answer.plan?.validity;
  if (bounds?.status === "pending") followBounds(bounds.job);
}

/** For a reviewer: a refusal that other trainings of the model would not give. @param {any} future */
const secondLook = (future) =>
  future?.look_again &&
  h(
    "div.note",
    { id: "second-look" },
    h("b", {}, "Look at this case again: "),
    `${Math.round(future.accepted * future.models)} of ${future.models} models of other trainings accept this ` +
      "applicant as they are. The letter does not say so.",
  );

/** @param {any} answer @param {any} body of the request @param {Actions} actions @returns {any[]} */
function answerParts(answer, body, actions) {
  const offer = offerPart(answer, body);
  const reasons = reasonsPart(answer.reasons);
  if (answer.status === "found")
    return [
      ...waysTitle(answer),
      h("div.answered", {}, reasons, h("div.ways-part", {}, ...waysParts(answer, actions.wish))),
      offer,
    ];
  if (answer.status === "not_found") return [...notFoundParts(answer, actions), offer, reasons];
  return [h("h3", {}, "The model already says yes. Nothing needs to change."), scale(answer.factual.probability)];
}

/** @param {any} answer @param {Actions} actions */
const notFoundParts = ({ detail, reason, relax, nearest }, actions) => [
  h("h3", {}, "No way to a yes was found"),
  h("p", {}, detail),
  relax && obstacleNote(relax, () => actions.removeLimit(relax)),
  reason === "deadline" &&
    h("button", { type: "button", onclick: actions.takeLonger }, "Search for up to a minute in the background"),
  nearest && nearestParts(nearest),
];

const OBSTACLES = {
  immutable: "has to stay as it is",
  direction: "may move one way only",
  bounds: "has to keep within a range",
  max_change: "may move only so far",
  least_change: "has to move so far, if it moves",
  exclude: "is ruled out, or some of its changes are",
  must_include: "has to change as you said",
};

/** The constraint whose removal helps most. @param {Relaxation} relax @param {() => void} remove */
function obstacleNote({ constraint, feature, sufficient, text }, remove) {
  const label = featureNamed(feature)?.label ?? feature;
  const limits = {
    max_changes: `no more than ${counted(Number($("most").value), "thing")} may change`,
    horizon_months: `the time. ${text.replace(/\.$/, "")}`,
  };
  const limit =
    limits[/** @type {"max_changes"} */ (constraint)] ??
    `${feature === null ? "what" : `“${label}”`} ${OBSTACLES[/** @type {"bounds"} */ (constraint)]}`;
  return h(
    "div.note",
    {},
    h(
      "p",
      {},
      h("b", {}, "The limit that blocks most: "),
      `${limit}.`,
      !sufficient && " Removing it alone may not be enough.",
    ),
    h(
      "button",
      { type: "button", id: "allow", onclick: remove },
      constraint === "horizon_months" ? "Allow ten years and ask again" : "Remove this limit and ask again",
    ),
  );
}

/** @param {any} nearest */
const nearestParts = (nearest) =>
  h(
    "div",
    {},
    h("h4", {}, "The closest record that was tried"),
    changeList(nearest.changes),
    h("p.hint", {}, shortfallText(nearest)),
    nearest.future && h("dl.certificate", {}, ...futureEntry(nearest.future, readyFutures()?.agreement ?? null)),
  );

/** What the closest record lacks. @param {any} nearest */
function shortfallText({ favourable, future, ...decision }) {
  if (!favourable) return `The model still says no: ${chance({ favourable, ...decision })}.`;
  if (future && future.asked !== null)
    return "The model accepts this record, but it is less robust than was asked for.";
  return "The model accepts this record, but it does not meet the method’s own requirement.";
}

/** @param {string[]} warnings */
const warningNote = (warnings) =>
  warnings.length > 0 &&
  h("div.note.warn", {}, h("b", {}, "Please note"), h("ul", {}, ...warnings.map((text) => h("li", {}, text))));

/** How the answer was computed. @param {any} answer */
function provenance({ id, model, method, surrogate, diagnostics, seed, expires_at: expires }) {
  const { model_calls: calls, model_rows: rows, elapsed_ms: elapsed } = diagnostics;
  const parameters = Object.entries(method).map(([name, value]) =>
    name === "name" ? value : `${name} ${JSON.stringify(value)}`,
  );
  const entries = [
    ["Model", `${model.id}, version ${model.version}`],
    ["Valid until", `${formatDate(expires)}, for this version of the model`],
    ["Method", parameters.join(", ")],
    surrogate && [
      "Fidelity of the local surrogate",
      `agrees with the model on ${inHundred(surrogate.fidelity)} boundary samples, of ${formatNumber(surrogate.samples)}`,
    ],
    ["Model calls", calls === null ? "unknown: stopped" : `${counted(calls, "call")}, ${counted(rows, "record")}`],
    ["Time", `${formatShort(elapsed)} ms`],
    ["Seed", `${seed}; the same request with it gets the same answer`],
    ["Answer ID", id],
  ].filter(Boolean);
  return h(
    "details.workings",
    {},
    h("summary", {}, "For specialists: how this was computed"),
    h("dl", {}, ...entries.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)])),
  );
}
