// @ts-check
/** The ledger: store an answer, and find stored ones; each opens as a case. */

import { fetchJson, isAborted, send } from "./api.js";
import { openCase, titleOf } from "./case.js";
import { $, download, fill, h, headed, scrollingTable } from "./dom.js";
import { formatDate } from "./format.js";
import { submit } from "./jobs.js";
import { letterButton } from "./letter.js";
import { problemNote } from "./problem.js";
import { state } from "./state.js";

/** @import { Asked } from "./types.d.ts" */

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
      h("a", { href: "#promises" }, "Cases"),
      status === "found" ? ", and check it against other versions of the model." : ".",
    ),
    h("div.row", {}, letterButton(id)),
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
    const table = scrollingTable("table.stack", { label: "Stored answers", caption: "Stored answers, newest first" }, HEADS, []);
    const list = /** @type {HTMLElement} */ (table.querySelector("tbody"));
    const more = h("div.row", {}, exportButton(query));
    fill("found", table, more);
    extend(list, more, page, query, signal);
  } catch (problem) {
    if (!isAborted(problem)) fill("found", problemNote(problem));
  }
}

const HEADS = ["Case", "Answer", "Model", "Given", "Valid until", "At the last check"];

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
  list.append(...page.recourse.map((one) => headed(HEADS, storedRow(one))));
  if (page.next_cursor === null) return;
  const button = h("button", { type: "button" }, "Older answers");
  button.onclick = async () => {
    button.disabled = true;
    try {
      const next = await fetchJson(`recourse?limit=20${query}&cursor=${page.next_cursor}`, { signal });
      const last = list.children.length;
      button.remove();
      extend(list, more, next, query, signal);
      list.children[last]?.querySelector("button")?.focus();
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
      download(await table.blob(), "answers.csv");
    } catch (problem) {
      button.after(problemNote(problem));
    } finally {
      button.disabled = false;
    }
  };
  return button;
}

const STATUSES = { found: "a way to a yes", not_found: "no way found", already_favourable: "already a yes" };

/** One stored answer as a row, whose name opens the case. @param {any} stored */
function storedRow({ id, reference, status, model, created_at: created, expires_at: expires, kept }) {
  const cells = [
    STATUSES[/** @type {"found"} */ (status)],
    titleOf(model),
    formatDate(created),
    formatDate(expires),
    kept === null ? "not checked" : h(kept ? "b.yes" : "b.no", {}, kept ? "kept" : "broken"),
  ];
  const name = h("button.link", { type: "button", title: id, onclick: () => openCase(id) }, reference ?? id);
  return h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell)));
}
