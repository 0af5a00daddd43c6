/** An answer: why the model says no, changes that lead to a yes or why none was found, and terms that would do. */

import { fetchJson } from "./api.js";
import { chance, scale } from "./decision.js";
import { $, button, fill, h, table } from "./dom.js";
import { counted, formatDate, formatNumber, formatShort, formatValue, inHundred, outOfHundred } from "./format.js";
import { workButton } from "./jobs.js";
import { futureEntry, promise, promisedCell, promisedHead } from "./promise.js";
import { offersRequest } from "./request.js";
import { featureNamed } from "./state.js";
import { storeForm } from "./store.js";
import { changeList, waysParts, waysTitle } from "./ways.js";

/** What lowered the score most, whether or not the person can change it; null where that was not asked for. */
const reasonsPart = (reasons) =>
  reasons &&
  h(
    "section.reasons",
    { "aria-labelledby": "reasons-title" },
    h("h4", { id: "reasons-title" }, "Why the model says no"),
    reasons.detail && h("p.hint", reasons.detail),
    reasons.reasons.length > 0 && h("ol", ...reasons.reasons.map(reasonItem)),
    reasons.against &&
      h("p.hint", `Shares of all that counts against the applicant, compared with ${reasons.against.text}.`),
  );

function reasonItem({ feature: name, code, text, value, reference, share, contribution }) {
  const feature = featureNamed(name);
  const style = { "--share": `${100 * share}%` };
  // A value may be usual and lower the score all the same.
  const usual = value === reference ? "" : `usual: ${feature && formatValue(feature, reference)}`;
  const own = feature && formatValue(feature, value);
  return h(
    "li",
    h("b", text),
    feature && h("p.hint", [!text.endsWith(`: ${own}`) && own, usual].filter(Boolean).join("; ")),
    h(
      "p.part-of",
      { title: specialists(code, contribution) },
      h("span.share.poor", { "aria-hidden": "true", style }, h("i")),
      `${outOfHundred(share)}%`,
      h("span.unseen", " of what counts against the applicant"),
    ),
  );
}

/** @param contribution to the score; null where the key may not read it */
const specialists = (code, contribution) =>
  [code && `Code ${code}`, contribution !== null && `${formatShort(contribution)} of the score`]
    .filter(Boolean)
    .join("; ");

/** The best offer of an answer, and a button for all. @param body of its request */
function offerPart({ offer }, body) {
  if (!offer) return null;
  const place = h("div");
  const show = async () =>
    place.replaceChildren(...offersTable(await fetchJson("recourse/offers", { body: offersRequest(body) })));
  return h(
    "section.note",
    { id: "offer", "aria-labelledby": "offer-title" },
    h("h4", { id: "offer-title" }, "Other terms would do, with nothing else changed"),
    h("p", offer.text),
    promise(offer.future),
    workButton("Show all terms", place, show, { id: "offers" }),
    place,
  );
}

function offersTable({ offers, detail, warnings }) {
  if (offers.length === 0) return [h("p", detail)];
  const features = Object.keys(offers[0].terms).map(featureNamed);
  const future = offers[0].future;
  const heads = [...features.map(({ label }) => label), ...(future ? [promisedHead(future)] : [])];
  const rows = offers.map((one) => [
    ...features.map((feature) => formatValue(feature, one.terms[feature.name])),
    ...(future ? [promisedCell(one.future)] : []),
  ]);
  const names = {
    label: "Terms that the model accepts",
    caption: "Terms with which the model says yes, the best first",
  };
  return [table(names, heads, rows), ...warnings.map((text) => h("p.hint", text))];
}

/** @param asked the request behind it */
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
}

/** For a reviewer: a refusal that other trainings of the model would not give. */
const secondLook = (future) =>
  future?.look_again &&
  h(
    "div.note",
    { id: "second-look" },
    h("b", "Look at this case again: "),
    `${Math.round(future.accepted * future.models)} of ${future.models} models of other trainings accept this ` +
      "applicant as they are. The letter does not say so.",
  );

function answerParts(answer, body, actions) {
  const offer = offerPart(answer, body);
  const reasons = reasonsPart(answer.reasons);
  if (answer.status === "found")
    return [
      ...waysTitle(answer),
      h("div.answered", reasons, h("div.ways-part", ...waysParts(answer, actions.wish))),
      offer,
    ];
  if (answer.status === "not_found") return [...notFoundParts(answer, actions), offer, reasons];
  return [h("h3", "The model already says yes. Nothing needs to change."), scale(answer.factual.probability)];
}

const notFoundParts = ({ detail, reason, relax, nearest }, actions) => [
  h("h3", "No way to a yes was found"),
  h("p", detail),
  relax && obstacleNote(relax, () => actions.removeLimit(relax)),
  reason === "deadline" && button("Search for up to a minute in the background", actions.takeLonger),
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

/** The constraint whose removal helps most. */
function obstacleNote({ constraint, feature, sufficient, text }, remove) {
  const label = featureNamed(feature)?.label ?? feature;
  const limits = {
    max_changes: `no more than ${counted(Number($("most").value), "thing")} may change`,
    horizon_months: `the time. ${text.replace(/\.$/, "")}`,
  };
  const limit = limits[constraint] ?? `${feature === null ? "what" : `“${label}”`} ${OBSTACLES[constraint]}`;
  return h(
    "div.note",
    h("p", h("b", "The limit that blocks most: "), `${limit}.`, !sufficient && " Removing it alone may not be enough."),
    button(`${constraint === "horizon_months" ? "Allow ten years" : "Remove this limit"} and ask again`, remove, {
      id: "allow",
    }),
  );
}

const nearestParts = (nearest) =>
  h(
    "div",
    h("h4", "The closest record that was tried"),
    changeList(nearest.changes),
    h("p.hint", shortfallText(nearest)),
    nearest.future && h("dl.certificate", ...futureEntry(nearest.future)),
  );

function shortfallText({ favourable, future, ...decision }) {
  if (!favourable) return `The model still says no: ${chance({ favourable, ...decision })}.`;
  if (future && future.asked !== null)
    return "The model accepts this record, but it is less robust than was asked for.";
  return "The model accepts this record, but it does not meet the method’s own requirement.";
}

const warningNote = (warnings) =>
  warnings.length > 0 && h("div.note.warn", h("b", "Please note"), h("ul", ...warnings.map((text) => h("li", text))));

/** How the answer was computed. */
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
    h("summary", "For specialists: how this was computed"),
    h("dl", ...entries.flatMap(([term, text]) => [h("dt", term), h("dd", text)])),
  );
}
