/** The ledger: find stored answers; each opens as a case. */

import { fetchJson, isAborted, send } from "./api.js";
import { openCase, titleOf, versionText } from "./case.js";
import { outcome } from "./decision.js";
import { $, button, download, fill, forSpecialists, h, table, tableRow } from "./dom.js";
import { counted, formatDate, inHundred, lowerBound, readable } from "./format.js";
import { RESPOND_ASYNC, guarded, problemNote, runJob, workButton } from "./jobs.js";
import { chosenModel, fullName, state } from "./state.js";

let listing = new AbortController();

const NAMES = { label: "Stored answers", caption: "Stored answers, newest first", classes: "stack" };

const HEADS = ["Case", "Answer", "Model", "Given", "Valid until", "At the last check"];

const NONE = "No answers are stored yet. Below each answer you can store it.";

/** Whether somebody searches; a search that fills the view at its opening does not take its place. */
let searching = false;

/** Show the view: what is stored, and the versions to check it against. */
export const showStored = () => (offerVersions(), searching || findStored());

/** Show the newest stored answers that fit the filters. @param asked whether a single one with the reference opens */
export async function findStored(asked = false) {
  listing.abort();
  searching = asked;
  const { signal } = (listing = new AbortController());
  offerModels();
  const query = filters();
  const read = (cursor = "") => fetchJson(`recourse?limit=20${query}${cursor}`, { signal });
  try {
    const page = await read();
    if (page.recourse.length === 0) {
      fill("listed");
      fill("found-status", query ? "No stored answer fits this." : NONE);
      return;
    }
    const shown = table(NAMES, HEADS, []);
    const place = h("div");
    const take = async () => {
      const response = await send(`recourse?limit=200${query}`, { headers: { Accept: "text/csv" } });
      download(await response.blob(), "answers.csv");
    };
    const more = h("div.row", workButton("Take all of these as CSV", place, take));
    fill("listed", shown, more, place);
    const count = counted(page.recourse.length, "stored answer");
    fill("found-status", page.next_cursor === null ? `${count}.` : `The newest ${count}.`);
    extend(shown.querySelector("tbody"), more, page, read);
    if (asked && $("reference").value.trim() && page.recourse.length === 1) openCase(page.recourse[0].id);
  } catch (problem) {
    if (!isAborted(problem)) fill("listed", problemNote(problem));
  } finally {
    if (!signal.aborted) searching = false;
  }
}

/** Show a page of stored answers after those that are shown, and before `more` a button for the one after it. */
function extend(list, more, { recourse, next_cursor: cursor }, read) {
  list.append(...recourse.map((stored) => tableRow(HEADS, cells(stored))));
  if (cursor === null) return;
  const older = workButton("Older answers", more.nextSibling, async () => {
    const next = await read(`&cursor=${cursor}`);
    const last = list.children.length;
    older.remove();
    extend(list, more, next, read);
    list.children[last]?.querySelector("button")?.focus();
  });
  more.prepend(older);
}

const STATUSES = { found: "a way to a yes", not_found: "no way found", already_favourable: "already a yes" };

const cells = ({ id, reference, status, model, created_at: created, expires_at: expires, kept }) => [
  button(reference ?? id, () => openCase(id), { class: "link", title: id, "aria-label": `Case ${reference ?? id}` }),
  STATUSES[status],
  titleOf(model),
  formatDate(created),
  formatDate(expires),
  kept === null ? "not checked" : outcome(kept, "kept", "broken"),
];

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
  return Object.entries(chosen)
    .map(([name, value]) => (value ? `&${name}=${encodeURIComponent(value)}` : ""))
    .join("");
}

/** @param date by the reader's clock; invalid where no day is chosen */
const moment = (date) => (Number.isNaN(date.valueOf()) ? "" : date.toISOString());

// --- the audit: every promise of a model, verified against another version of it ---

function offerVersions() {
  const versions = state.models.filter((m) => m.id === chosenModel().id);
  fill("candidate", ...versions.map((m) => h("option", { value: fullName(m) }, readable(versionText(m)))));
  $("candidate").value = fullName(versions.at(-1));
  fill("audited");
}

export const audit = () =>
  guarded($("audit").querySelector("button"), $("audited"), async () => {
    if ($("candidate").options.length === 0) offerVersions();
    const model = $("candidate").value;
    const path = `models/${encodeURIComponent(model.split("@")[0])}/audits`;
    const job = await fetchJson(path, { body: { model }, prefer: RESPOND_ASYNC });
    const result = await runJob(job, $("audit-job"), { shown: true });
    if (result) fill("audited", ...auditParts(result));
  });

/** Kept and broken promises as a bar, in numbers, and one by one. */
function auditParts({ promises, still_valid: kept, broken, promised_lower: lower, broken_promises: list }) {
  if (promises === 0) return [h("p.note", "There are no promises to verify: store an answer first.")];
  const share = kept / promises;
  return [
    h("div.share.audit.good", { "aria-hidden": "true", style: { "--share": `${100 * share}%` } }, h("i")),
    h(
      "p",
      { role: "status" },
      `Of ${counted(promises, "stored answer")}, `,
      h(kept > 0 ? "b.yes" : "b", `${kept} kept`),
      " and ",
      h(broken > 0 ? "b.no" : "b", `${broken} broken`),
      ` by this version: ${inHundred(share)} kept. An answer is kept if all its ways are.`,
    ),
    list.length > 0 && h("ul", ...list.map(brokenItem)),
    lower !== null &&
      forSpecialists(h("p.hint", `Mean worst-case bound under shift when they were given: ${lowerBound(lower)}.`)),
  ];
}

const brokenItem = ({ id, reference, reason }) =>
  h(
    "li",
    reference === null ? h("code", id) : h("b", { title: id }, reference),
    reason === "refused" ? ": the model says no" : ": the record no longer fits the model",
  );
