// @ts-check
/**
 * A stored case, opened: the decision, its ways, letters sent, reviews, and whether later versions keep the promise.
 *
 * Its applicant is handed on by the event `applicant` of `#case`, whose `resolve` says whether the form has it.
 */

import { fetchJson, send } from "./api.js";
import { chance, outcome } from "./decision.js";
import { $, download, fill, h } from "./dom.js";
import { formatDate, formatTime } from "./format.js";
import { storedKey } from "./key.js";
import { CHANNELS, letterButton } from "./letter.js";
import { problemNote } from "./problem.js";
import { reviewsPart } from "./review.js";
import { fullName, state } from "./state.js";
import { bringUp } from "./views.js";
import { wayCards } from "./ways.js";

/** @import { Model } from "./types.d.ts" */

/** The case that is open; one that comes late does not take its place. */
let opened = "";

/** Show a case below the list. @param {string} id of a stored answer */
export async function openCase(id) {
  opened = id;
  try {
    const file = await fetchJson(`recourse/${id}/case`);
    if (opened !== id) return;
    show(file);
    bringUp($("case"));
    await handOn(file);
  } catch (problem) {
    if (opened !== id) return;
    $("case").hidden = false;
    fill("case-body", problemNote(problem));
    bringUp($("case"));
  }
}

/** Read the case again, once something was recorded. @param {string} id */
async function refresh(id) {
  const file = await fetchJson(`recourse/${id}/case`);
  if (opened === id) show(file);
}

/** @param {any} file */
function show(file) {
  const { id, reference, answer } = file;
  $("case").hidden = false;
  $("case-title").textContent = `Case ${reference ?? id}`;
  const again = () => refresh(id);
  fill(
    "case-body",
    file.holds ? null : h("p.note.bad", {}, "Entries of this case are not as they were written: the case file says which."),
    h("p", {}, ...decisionOf(answer)),
    h(
      "div.row",
      {},
      answer.status !== "already_favourable" && letterButton(id, again),
      h("button", { type: "button", onclick: () => openFile(id, reference) }, "Case file"),
      h("button", { type: "button", onclick: () => ((opened = ""), ($("case").hidden = true)) }, "Close"),
    ),
    h("h3.unseen", {}, "The ways of this answer"),
    answer.counterfactuals.length > 0 ? wayCards(answer) : h("p.hint", {}, answer.detail ?? ""),
    h("p.hint", { id: "case-form", role: "status" }),
    h("div.halves", {}, lettersPart(file.letters), reviewsPart(file, again)),
    answer.counterfactuals.length > 0 && promisePart(file),
  );
}

/** @param {Model} model as an answer names it */
export const titleOf = ({ id, version }) => `${state.models.find((m) => m.id === id)?.title ?? id}, version ${version}`;

/** @param {any} answer */
const decisionOf = ({ factual, model, created_at: created, expires_at: expires }) => [
  ...(factual === null ? ["The model was not asked in time. "] : ["The model says ", outcome(factual.favourable), ". "]),
  h("span.hint", {}, `${titleOf(model)}; given ${formatDate(created)}, valid until ${formatDate(expires)}.`),
];

/** @param {any[]} letters */
const lettersPart = (letters) =>
  h(
    "section",
    {},
    h("h3", {}, "Letters sent"),
    letters.length === 0
      ? h("p.hint", {}, "None is recorded.")
      : h("ul.plain", { id: "sent" }, ...letters.map(letterItem)),
  );

/** @param {any} letter */
const letterItem = ({ sent_at: at, channel, addressee, text, language }) =>
  h(
    "li",
    {},
    h(
      "details",
      {},
      h("summary", {}, `${formatTime(at)}, ${CHANNELS[channel]}${addressee.length > 0 ? `, to ${addressee[0]}` : ""}`),
      h("pre", { lang: language ?? "", tabindex: 0 }, text),
    ),
  );

/** @param {Model} model */
export const versionText = ({ version, active }) => `version ${version}${active ? "" : ", inactive"}`;

/** What later versions say of the promise, and a way to ask any of them. @param {any} file */
function promisePart({ id, answer, later }) {
  const versions = state.models.filter((m) => m.id === answer.model.id);
  const choice = h(
    "select",
    { id: "verify-with", "aria-label": "Version of the model to ask" },
    ...versions.map((m) => h("option", { value: fullName(m) }, versionText(m))),
  );
  const result = h("div", { role: "status" });
  const ask = async () =>
    result.replaceChildren(...(await verification(id, choice.value).catch((problem) => [problemNote(problem)])));
  const said = (/** @type {any} */ { model, kept, detail }) =>
    h("li", {}, `${model}: `, kept === null ? detail : h(kept ? "b.yes" : "b.no", {}, kept ? "kept" : "broken"));
  return h(
    "section",
    {},
    h("h3", {}, "The promise"),
    later.length === 0 ? h("p.hint", {}, "No later version is registered.") : h("ul.plain", {}, ...later.map(said)),
    h("div.row", {}, choice, h("button", { type: "button", onclick: ask }, "Does it still say yes?")),
    result,
  );
}

/**
 * The decision of a version of the model on a stored answer.
 * @param {string} id @param {string} version
 * @returns {Promise<Node[]>}
 */
async function verification(id, version) {
  const body = { model: version };
  const { still_valid: valid, counterfactuals } = await fetchJson(`recourse/${id}/verify`, { body });
  const reason = (/** @type {any} */ way) =>
    way.reason === "does_not_fit" ? "the record no longer fits the model" : chance(way);
  const reasons = counterfactuals.map(reason).join("; ");
  const word = h(valid ? "b.yes" : "b.no", {}, valid ? "Kept." : "Broken.");
  return [h("p.note", {}, word, ` ${version} ${valid ? "still says yes" : "says no"}: ${reasons}.`)];
}

/** The case file as a page; downloaded where a page of its own could not send the key. @param {string} id @param {string | null} reference */
async function openFile(id, reference) {
  const path = `recourse/${id}/case?format=html`;
  if (!storedKey()) open(path, "_blank", "noopener");
  else download(await (await send(path)).blob(), `case ${reference ?? id}.html`);
}

/** Let the applicant of a case enter the form. @param {any} file */
async function handOn({ answer, request }) {
  const filled = await new Promise((resolve) => {
    const detail = { model: fullName(answer.model), applicant: request.applicant, resolve };
    $("case").dispatchEvent(new CustomEvent("applicant", { detail }));
  });
  const note = filled
    ? ["The applicant of this answer is in the form of ", h("a", { href: "#one" }, "One applicant"), " now."]
    : ["This version of the model is no longer in use, so the form stays as it is."];
  if (document.getElementById("case-form")) fill("case-form", ...note);
}
