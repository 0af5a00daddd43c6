/**
 * A stored case, opened: its decision and ways, its letters and reviews, and whether later versions keep the promise.
 *
 * Its applicant is handed on by the event `applicant` of `#case`, whose `resolve` says whether the form has it.
 */

import { fetchJson, openPage, send, storedKey } from "./api.js";
import { applicant, faultyFeatures } from "./applicant.js";
import { chance, outcome } from "./decision.js";
import { $, bringUp, button, fill, h, labelled } from "./dom.js";
import { formatDate, formatTime, formatValue } from "./format.js";
import { guarded, problemNote, workButton } from "./jobs.js";
import { baseFeatures, featureNamed, fullName, state } from "./state.js";
import { wayCards } from "./ways.js";

/** The case that is open; one that comes late does not take its place. */
let opened = { id: "" };

/** Show a case below the list. @param id of a stored answer */
export async function openCase(id) {
  const mine = (opened = { id });
  // What is shown is about to be replaced: nothing begun in it would be seen.
  $("case").hidden = true;
  try {
    const file = await fetchJson(`recourse/${id}/case`);
    if (opened !== mine) return;
    show(file);
    bringUp($("case"));
    await handOn(file);
  } catch (problem) {
    if (opened !== mine) return;
    $("case").hidden = false;
    fill("case-body", problemNote(problem));
    bringUp($("case"));
  }
}

function show(file) {
  const { id, reference, answer, holds, letters } = file;
  const found = answer.counterfactuals.length > 0;
  const readAgain = async () => {
    const now = await fetchJson(`recourse/${id}/case`);
    if (opened.id === id) show(now);
  };
  $("case").hidden = false;
  $("case-title").textContent = `Case ${reference ?? id}`;
  fill(
    "case-body",
    !holds && h("p.note.bad", "Entries of this case are not as they were written: the case file says which."),
    h("p", ...decisionOf(answer)),
    h(
      "div.row",
      answer.status !== "already_favourable" && letterButton(id, readAgain),
      button("Case file", () => openPage(`recourse/${id}/case?format=html`, `case ${reference ?? id}.html`)),
      button("Close", () => ((opened = { id: "" }), ($("case").hidden = true)), { "aria-label": "Close this case" }),
    ),
    h("h3.unseen", "The ways of this answer"),
    found ? wayCards(answer) : h("p.hint", answer.detail ?? ""),
    h("p.hint", { id: "case-form", role: "status" }),
    h("div.halves", lettersPart(letters), reviewsPart(file, readAgain), found && promisePart(file)),
  );
}

export const titleOf = ({ id, version }) => `${state.models.find((m) => m.id === id)?.title ?? id}, version ${version}`;

const decisionOf = ({ factual, model, created_at: created, expires_at: expires }) => [
  ...(factual === null
    ? ["The model was not asked in time. "]
    : ["The model says ", outcome(factual.favourable), ". "]),
  h("span.hint", `${titleOf(model)}; given ${formatDate(created)}, valid until ${formatDate(expires)}.`),
];

async function handOn({ answer, request }) {
  const filled = await new Promise((resolve) => {
    const detail = { model: fullName(answer.model), applicant: request.applicant, resolve };
    $("case").dispatchEvent(new CustomEvent("applicant", { detail }));
  });
  const note = filled
    ? ["The data of this applicant are now in the form under ", h("a", { href: "#one" }, "One applicant"), "."]
    : ["This version of the model is no longer in use, so the form stays as it is."];
  if ($("case-form")) fill("case-form", ...note);
}

/** A part of a case that is a list, or says that it is empty. */
const listed = (title, items, none, attributes = {}) => [
  h("h3", title),
  items.length > 0 ? h("ul.plain", attributes, ...items) : h("p.hint", none),
];

// --- the promise ---

export const versionText = ({ version, active }) => `version ${version}${active ? "" : ", inactive"}`;

/** What later versions say of the promise, and a way to ask any of them. */
function promisePart({ id, answer, later }) {
  const versions = state.models.filter((m) => m.id === answer.model.id);
  const choice = h(
    "select",
    { id: "verify-with", "aria-label": "Version of the model to ask" },
    ...versions.map((m) => h("option", { value: fullName(m) }, versionText(m))),
  );
  const place = h("div", { role: "status" });
  const verify = async () => place.replaceChildren(await verification(id, choice.value));
  const said = ({ model, kept, detail }) =>
    h("li", `${model}: `, kept === null ? detail : outcome(kept, "kept", "broken"));
  return h(
    "section",
    ...listed("The promise", later.map(said), "No later version is registered."),
    h("div.row", choice, workButton("Does it still say yes?", place, verify)),
    place,
  );
}

/** The decision of a version of the model on a stored answer. */
async function verification(id, model) {
  const { still_valid: valid, counterfactuals } = await fetchJson(`recourse/${id}/verify`, { body: { model } });
  const reason = (way) => (way.reason === "does_not_fit" ? "the record no longer fits the model" : chance(way));
  const reasons = counterfactuals.map(reason).join("; ");
  return h(
    "p.note",
    outcome(valid, "Kept.", "Broken."),
    ` ${model} ${valid ? "still says yes" : "says no"}: ${reasons}.`,
  );
}

// --- letters ---

/** Languages of the letters that the service brings; the lender may add others, such as the reader's own. */
const LANGUAGES = ["en", "de"];

const names = new Intl.DisplayNames("en", { type: "language" });

const CHANNELS = {
  post: "by post",
  email: "by e-mail",
  portal: "in the customer portal",
  in_person: "in person",
  other: "another way",
};

const lettersPart = (letters) =>
  h("section", ...listed("Letters sent", letters.map(letterItem), "None is recorded.", { id: "sent" }));

const letterItem = ({ sent_at: at, channel, addressee: [to], text, language }) =>
  h(
    "li",
    h(
      "details",
      h("summary", `${formatTime(at)}, ${CHANNELS[channel]}${to ? `, to ${to}` : ""}`),
      h("div.letter", { lang: language ?? "" }, ...letterParts(text)),
    ),
  );

/** Columns at which the text of a letter is wrapped. */
const WIDTH = 76;

/** The text of a letter as headings, paragraphs and lists, whose lines the browser breaks. */
const letterParts = (text) =>
  text
    .trim()
    .split(/\n{2,}/)
    .map(letterPart);

function letterPart(block) {
  const lines = block.split("\n");
  if (/^=+$/.test(lines[1])) return h("h3", lines[0]);
  if (/^-+$/.test(lines[1])) return h("h4", lines[0]);
  const [mark] = /^(- |\d+\. )|/.exec(block);
  const whole = lines.reduce(
    (text, line, i) => text + (continues(lines[i - 1], line, mark) ? " " : "\n") + line.trim(),
  );
  if (!mark) return h("p", whole);
  return h(mark === "- " ? "ul" : "ol", ...whole.split("\n").map((entry) => h("li", entry.replace(/^\S+ /, ""))));
}

/** Whether the text was wrapped before a line: in a list it is indented, elsewhere its first word had no room before. */
const continues = (before, line, mark) =>
  mark ? line.startsWith(" ") : `${before} ${line.split(" ", 1)}`.length > WIDTH;

/** The letter that is shown: of which answer, its page, and who is told once it is recorded. */
let shown = { id: "", page: "", onSent: () => {} };

const letterButton = (id, onSent) => button("Letter", () => openLetter(id, onSent), { class: "primary" });

/** Show the letter about a stored answer. @param onSent called once it is recorded */
export async function openLetter(id, onSent = () => {}) {
  shown = { id, page: "", onSent };
  if ($("letter-language").options.length === 0) offerChoices();
  $("letter-form").reset();
  // A letter that was recorded has shown the case anew: what opened it is gone.
  const opener = document.activeElement;
  $("letter").onclose = () => (opener.isConnected ? opener : $("case")).focus();
  $("letter").showModal();
  await showLetter();
}

function offerChoices() {
  const own = navigator.language.split("-")[0];
  const tags = [...new Set([...LANGUAGES, own])];
  fill("letter-language", ...tags.map((tag) => h("option", { value: tag, selected: tag === own }, names.of(tag))));
  fill("letter-channel", ...Object.entries(CHANNELS).map(([name, text]) => h("option", { value: name }, text)));
}

/** Show the letter as it would be sent; where settings are missing, a draft that names them. */
export async function showLetter() {
  const language = $("letter-language").value;
  const on = $("letter-applied").value;
  const path = `recourse/${shown.id}/notice?lang=${language}&draft=true${on && `&applied_on=${on}`}`;
  shown.page = `${path}&format=html`;
  fill("letter-said");
  $("letter-record").disabled = true;
  try {
    const { missing } = await fetchJson(path);
    fillLetter(await (await send(`${path}&format=text`)).text(), language);
    $("letter-record").disabled = missing.length > 0;
    const said = `The letter is shown in ${names.of(language)}.`;
    const draft = h("p.note.bad", `This is a draft. Missing: ${missing.join(", ")}.`);
    fill("letter-said", missing.length > 0 ? draft : h("p.unseen", said));
  } catch (problem) {
    fillLetter("", language);
    fill("letter-said", problemNote(problem));
  }
}

function fillLetter(text, language) {
  fill("letter-text", ...letterParts(text));
  $("letter-text").lang = language;
  $("letter-text").scrollTop = 0;
}

/** Record the letter as sent to who is entered, and show it as it was recorded. */
export async function recordLetter() {
  const lines = $("letter-to")
    .value.split("\n")
    .map((line) => line.trim());
  const body = {
    channel: $("letter-channel").value,
    addressee: lines.filter(Boolean),
    applied_on: $("letter-applied").value || null,
    language: $("letter-language").value,
  };
  $("letter-record").disabled = true;
  try {
    const letter = await fetchJson(`recourse/${shown.id}/notice`, { body });
    fillLetter(letter.text, letter.language);
    shown.page = `recourse/${shown.id}/letters/${letter.id}?format=html`;
    const said = `Recorded as sent ${CHANNELS[letter.channel]}, ${formatTime(letter.sent_at)}. Print what is shown now.`;
    fill("letter-said", h("p.note", said));
    $("letter-print").focus(); // the button that was pressed can be pressed no more
    shown.onSent();
  } catch (problem) {
    fill("letter-said", problemNote(problem));
    $("letter-record").disabled = false;
    $("letter-record").focus();
  }
}

/** Print the letter that is shown: as its own page, or as it stands here where that page could not send the key. */
export function printLetter() {
  if (storedKey()) print();
  else open(shown.page, "_blank", "noopener");
}

// --- reviews ---

/** Reviews so far, and a form for the next; data are corrected in the form of the applicant. */
const reviewsPart = ({ id, reviews, request, answer }, readAgain) =>
  h(
    "section",
    ...listed("Reviews", reviews.map(reviewItem), "Nobody has looked at it again."),
    reviewForm(id, () => corrections(answer.model.id, request.applicant), readAgain),
  );

const reviewItem = ({ recorded_at: at, by, reason, decision, corrections, asked }) =>
  h(
    "li",
    `${formatTime(at)}, ${by}: `,
    ...(asked === null ? [] : [`corrected ${correctedText(corrections)}; the model says `, decided(asked), ". "]),
    decision !== null && outcome(decision === "accepted", "accepted. ", "refused. "),
    reason,
  );

const decided = ({ favourable }) => (favourable === null ? "nothing" : outcome(favourable));

function correctedText(values) {
  const texts = Object.entries(values).map(([name, value]) => {
    const feature = featureNamed(name);
    return feature ? `${feature.label} to ${formatValue(feature, value)}` : name;
  });
  return texts.join(", ");
}

/** What the form of the applicant has other values of than a record; nothing where it is the form of another model. */
function corrections(model, record) {
  if ($("model").value.split("@")[0] !== model || faultyFeatures().length > 0) return {};
  const now = applicant();
  const changed = baseFeatures().filter(({ name }) => now[name] !== record[name]);
  return Object.fromEntries(changed.map(({ name }) => [name, now[name]]));
}

function reviewForm(id, corrected, readAgain) {
  const by = h("input", { id: "review-by", maxlength: 200, required: true, autocomplete: "name" });
  const reason = h("textarea", { id: "review-reason", rows: 2, maxlength: 5000, required: true });
  const decisions = { "": "none yet", accepted: "accepted", refused: "refused" };
  const options = Object.entries(decisions).map(([value, text]) => h("option", { value }, text));
  const decision = h("select", { id: "review-decision" }, ...options);
  const said = h("p.hint", { id: "review-corrected" });
  const record = h("button", "Record the review");
  const place = h("div", { role: "status" });
  const tell = () => {
    const values = corrected();
    const some = Object.keys(values).length > 0;
    const text = some
      ? [`To be corrected: ${correctedText(values)}. The model is asked again.`]
      : ["Is a value wrong? Correct it under ", h("a", { href: "#one" }, "One applicant"), ", and come back."];
    said.replaceChildren(...text);
  };
  const submit = async () => {
    const texts = { by: by.value.trim(), reason: reason.value.trim(), decision: decision.value || null };
    await fetchJson(`recourse/${id}/reviews`, { body: { ...texts, corrections: corrected() } });
    await readAgain();
    $("case").focus(); // the form that was sent is gone
    fill("case-form", "The review is recorded.");
  };
  const form = h(
    "form",
    { id: "review", onfocusin: tell, onsubmit: (event) => (event.preventDefault(), guarded(record, place, submit)) },
    said,
    labelled("Who looks again", by),
    labelled("Reason", reason),
    labelled("Decision", decision),
    h("div.row", record),
    place,
  );
  tell();
  return h("details", { ontoggle: tell }, h("summary", "Look at it again"), form);
}
