// @ts-check
/**
 * The ledger: store an answer, find stored ones, and verify them against other versions of the model.
 *
 * The applicant of a stored answer that is shown is handed on by the event `applicant` of `#found`, whose `resolve` says
 * whether the form has it.
 */

import { fetchJson, isAborted, send } from "./api.js";
import { chance } from "./decision.js";
import { $, fill, h } from "./dom.js";
import { formatDate } from "./format.js";
import { submit } from "./jobs.js";
import { letterForm } from "./letter.js";
import { problemNote } from "./problem.js";
import { fullName, state } from "./state.js";
import { wayCards } from "./ways.js";

/** @import { Applicant, Asked, Model } from "./types.d.ts" */

/**
 * A form that stores an answer; null if it is stored already.
 * @param {any} answer @param {Asked} asked the request behind it
 */
export function storeForm(answer, asked) {
  if (answer.stored) return null;
  const reference = h("input", {
    id: "store-as",
    maxlength: 200,
    autocomplete: "off",
    placeholder: "such as A-81723",
  });
  const place = h("div");
  const button = h("button", {}, "Store");
  const form = h(
    "form.row",
    { id: "store" },
    h("h4", {}, "Store it, then send it as a letter"),
    h("div.field", {}, h("label", { for: "store-as" }, "Reference of the case"), reference),
    button,
    place,
  );
  form.onsubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const body = { ...asked.body, store: true, reference: reference.value.trim() || null };
      const stored = await submit("recourse", body, place, { background: asked.background });
      if (stored === null) return;
      const note = storedNote(stored, stored.status === answer.status);
      form.replaceWith(note);
      note.focus();
      findStored();
    } catch (problem) {
      place.replaceChildren(problemNote(problem));
    } finally {
      button.disabled = false;
    }
  };
  return form;
}

/** @param {any} stored @param {boolean} same whether it is the answer on the page */
const storedNote = ({ id, status }, same) =>
  h(
    "div.note",
    { role: "status", tabindex: -1 },
    h(
      "p",
      {},
      same ? "Stored as " : "The service gave a different answer this time, not the one above. It is stored as ",
      h("code", {}, id),
      ". You can find it under ",
      h("a", { href: "#promises" }, "Promises"),
      status === "found" ? ", and check it against other versions of the model." : ".",
    ),
    letterForm(id),
  );

let listing = new AbortController();

/** Show the newest stored answers that fit the filters. */
export async function findStored() {
  listing.abort();
  const { signal } = (listing = new AbortController());
  offerModels();
  const query = filters();
  try {
    const page = await fetchJson(`recourse?limit=20${query}`, { signal });
    if (page.recourse.length === 0) {
      fill("found", h("p.hint", { role: "status" }, query ? "No stored answer fits this." : NONE));
      return;
    }
    const list = h("ul.cases");
    const more = h("div.row", {}, exportButton(query));
    fill("found", list, more);
    extend(list, more, page, query, signal);
  } catch (problem) {
    if (!isAborted(problem)) fill("found", problemNote(problem));
  }
}

const NONE = "No answers are stored yet. Below each answer you can store it.";

/** Offer the models that are there as filters; the choice stays. */
function offerModels() {
  const titles = new Map(state.models.map(({ id, title }) => [id, title ?? id]));
  const select = $("of-model");
  if (select.options.length > titles.size) return;
  const options = [...titles].map(([id, title]) => h("option", { value: id }, title));
  select.replaceChildren(h("option", { value: "" }, "any"), ...options);
}

/** What is chosen, as the rest of a query. */
function filters() {
  const end = new Date(`${$("given-until").value}T00:00`);
  end.setDate(end.getDate() + 1); // that day included
  const chosen = {
    reference: $("reference").value.trim(),
    model: $("of-model").value,
    status: $("of-status").value,
    kept: $("of-kept").value,
    since: moment(new Date(`${$("given-since").value}T00:00`)),
    until: moment(end),
  };
  return Object.entries(chosen).map(([name, value]) => (value ? `&${name}=${encodeURIComponent(value)}` : "")).join("");
}

/** @param {Date} date by the reader's clock; invalid where no day is chosen */
const moment = (date) => (Number.isNaN(date.valueOf()) ? "" : date.toISOString());

/**
 * Show a page of stored answers after those that are shown, and a button for the one after it.
 * @param {HTMLElement} list @param {HTMLElement} more where the button stands
 * @param {{recourse: any[], next_cursor: string | null}} page
 * @param {string} query @param {AbortSignal} signal of the list
 */
function extend(list, more, page, query, signal) {
  list.append(...page.recourse.map(storedItem));
  if (page.next_cursor === null) return;
  const button = h("button", { type: "button" }, "Older answers");
  button.onclick = async () => {
    button.disabled = true;
    try {
      const next = await fetchJson(`recourse?limit=20${query}&cursor=${page.next_cursor}`, { signal });
      const last = list.children.length;
      button.remove();
      extend(list, more, next, query, signal);
      const first = /** @type {HTMLElement} */ (list.children[last]);
      first?.setAttribute("tabindex", "-1");
      first?.focus();
    } catch (problem) {
      button.disabled = false;
      if (!isAborted(problem)) more.append(problemNote(problem));
    }
  };
  more.prepend(button);
}

/** Takes all that fits the filters as a table. @param {string} query */
function exportButton(query) {
  const button = h("button", { type: "button" }, "Take all of these as CSV");
  button.onclick = async () => {
    button.disabled = true;
    try {
      const table = await send(`recourse?limit=200${query}`, { headers: { Accept: "text/csv" } });
      const link = h("a", { href: URL.createObjectURL(await table.blob()), download: "answers.csv" });
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (problem) {
      button.after(problemNote(problem));
    } finally {
      button.disabled = false;
    }
  };
  return button;
}

const STATUSES = { found: "a way to a yes", not_found: "no way found", already_favourable: "already a yes" };

/** @param {Model} model as an answer names it */
const titleOf = ({ id, version }) => `${state.models.find((m) => m.id === id)?.title ?? id}, version ${version}`;

/** One stored answer. @param {any} stored */
function storedItem(stored) {
  const { id, reference, status, model, created_at: created, expires_at: expires, kept } = stored;
  const result = h("div", { role: "status" });
  return h(
    "li",
    {},
    h(
      "p",
      {},
      reference === null ? h("code", {}, id) : h("b", { title: id }, reference),
      ` · ${STATUSES[/** @type {"found"} */ (status)]} · ${titleOf(model)} · `,
      `given ${formatDate(created)}, valid until ${formatDate(expires)}`,
      kept !== null && h(kept ? "b.yes" : "b.no", {}, kept ? " · kept at the last check" : " · broken at the last check"),
    ),
    status === "found" && storedActions(stored, result),
    status !== "already_favourable" && letterForm(id),
    result,
  );
}

/** @param {any} stored @param {HTMLElement} result where their results are shown */
function storedActions({ id, reference, model }, result) {
  const versions = state.models.filter((m) => m.id === model.id);
  const options = versions.map((m) => h("option", { value: fullName(m) }, versionText(m)));
  const choice = h("select", { "aria-label": `Version to verify ${reference ?? id} against` }, ...options);
  const show = (/** @type {() => Promise<Node[]>} */ load) => async () =>
    result.replaceChildren(...(await load().catch((problem) => [problemNote(problem)])));
  return h(
    "div.row",
    {},
    h("button", { type: "button", onclick: show(() => storedWays(id)) }, "Show"),
    choice,
    h("button", { type: "button", onclick: show(() => verification(id, choice.value)) }, "Does it still say yes?"),
  );
}

/** @param {Model} model */
export const versionText = ({ version, active }) => `version ${version}${active ? "" : ", inactive"}`;

/**
 * The counterfactuals of a stored answer, whose applicant enters the form.
 * @param {string} id
 * @returns {Promise<Node[]>}
 */
async function storedWays(id) {
  const answer = await fetchJson(`recourse/${id}`);
  const filled = await new Promise((resolve) => {
    const detail = { model: fullName(answer.model), applicant: originalOf(answer.counterfactuals[0]), resolve };
    $("found").dispatchEvent(new CustomEvent("applicant", { detail }));
  });
  const note = filled
    ? ["The applicant of this answer is in the form of ", h("a", { href: "#one" }, "One applicant"), " now."]
    : ["This version of the model is no longer in use, so the form stays as it is."];
  return [h("h3.unseen", {}, "The ways of this answer"), h("p.hint", {}, ...note), wayCards(answer)];
}

/** The record from which a counterfactual starts. @param {any} counterfactual @returns {Applicant} */
const originalOf = ({ applicant, changes }) => ({
  ...applicant,
  ...Object.fromEntries(changes.map((/** @type {any} */ { feature, from }) => [feature, from])),
});

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
