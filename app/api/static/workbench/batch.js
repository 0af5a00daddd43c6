// @ts-check
/** Many applicants: a file is read on the page, answered by a job that can be watched, and its results taken away. */

import { send, fetchJson, isAborted } from "./api.js";
import { batchResults } from "./batch_results.js";
import { readRecords } from "./csv.js";
import { $, fill, h } from "./dom.js";
import { rangeText } from "./feature.js";
import { counted, formatTime, formatValue, inHundred } from "./format.js";
import { readyFutures } from "./future.js";
import { progressText, runJob } from "./jobs.js";
import { wayCount } from "./method.js";
import { problemNote } from "./problem.js";
import { batchRequest } from "./request.js";
import { baseFeatures, state } from "./state.js";
import { bringUp } from "./views.js";

/** @import { Feature, FileRecords, Job } from "./types.d.ts" */

/** Faults and jobs that are listed. */
const [MOST_FAULTS, MOST_JOBS] = [5, 10];

/** @type {{name: string, text: string, guessed: boolean} | null} the file that was chosen last */
let chosen = null;

/** @type {Map<string, number[]>} by the batches that were started here, the line of each applicant */
const linesOf = new Map();

/** Follow the file field, and files that are dropped on it. */
export function watchFile() {
  const drop = $("drop");
  $("file").onchange = () => take($("file").files[0]);
  const mark = (/** @type {boolean} */ over) => (/** @type {any} */ event) => {
    event.preventDefault();
    drop.classList.toggle("over", over);
  };
  drop.ondragover = mark(true);
  drop.ondragleave = mark(false);
  drop.ondrop = (/** @type {any} */ event) => (mark(false)(event), take(event.dataTransfer.files[0]));
}

/** @param {File | undefined} file */
async function take(file) {
  if (!file) return;
  chosen = { name: file.name, ...textOf(await file.arrayBuffer()) };
  showFile();
}

/** A text in UTF-8, else in the encoding of Windows in western Europe and America. @param {ArrayBuffer} bytes */
function textOf(bytes) {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), guessed: false };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), guessed: true };
  }
}

/** Show what the chosen file holds, for the chosen model. */
export function showFile() {
  fill("columns", h("dl.columns", {}, ...baseFeatures().flatMap(columnEntry)), referenceHint());
  if (!chosen) return;
  const guessed = chosen.guessed && h("p.note.warn", {}, GUESSED);
  try {
    fill("file-read", ...fileParts(chosen.name, readRecords(chosen.text)), guessed);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const fault = h("p.note.bad", { role: "alert" }, h("b", {}, chosen.name), ` cannot be read. ${error.message}`);
    fill("file-read", fault, guessed);
  }
}

/** @param {Feature} feature */
const columnEntry = (feature) => {
  const levels = feature.categories?.map((level) => formatValue(feature, level)).join(", ");
  return [h("dt", {}, h("code", {}, feature.name)), h("dd", {}, `${feature.label}: ${levels ?? rangeText(feature)}`)];
};

const referenceHint = () =>
  h(
    "p.hint",
    {},
    "The first line names the columns, in any order. A column ",
    h("code", {}, "reference"),
    " is returned as it is.",
  );

const GUESSED =
  "The file is not in UTF-8, so it was read as Windows-1252. If letters such as “ü” are wrong, save it as UTF-8.";

/** @param {string} name @param {FileRecords} read */
function fileParts(name, { rows, lines: numbers, faults, unused }) {
  const lines = new Set(faults.map(({ line }) => line)).size;
  const store = h("input", { type: "checkbox" });
  const start = h(
    "button.primary",
    { type: "button", id: "start-batch" },
    `Answer ${counted(rows.length, "applicant")}`,
  );
  start.onclick = () => run(name, rows, numbers, store.checked, start);
  const more = faults.length - MOST_FAULTS;
  return [
    h(
      "p",
      { role: "status" },
      h("b", {}, name),
      `: ${counted(rows.length, "applicant")}. `,
      faults.length === 0 && "Every value fits the model.",
    ),
    faults.length > 0 &&
      h(
        "div.note.warn",
        {},
        h(
          "p",
          {},
          `${counted(lines, "line has a value", "lines have values")} that the model does not take. Such lines are not answered:`,
        ),
        h("ul", {}, ...faults.slice(0, MOST_FAULTS).map(({ line, text }) => h("li", {}, `Line ${line}: ${text}.`))),
        more > 0 && h("p.hint", {}, `And ${counted(more, "other fault")}.`),
      ),
    unused.length > 0 && h("p.hint", {}, `Not used: ${unused.join(", ")}.`),
    h("p.hint", {}, askedText()),
    h("label.check", {}, store, " Store the answers, as promises to be checked later"),
    h("div.row", {}, start),
  ];
}

/** What is asked for each applicant. */
function askedText() {
  const ways = counted(wayCount() ?? 1, "way");
  const sure = readyFutures() ? `, to which, if applicants stay as they are, at least ${inHundred(state.share)} retrained models say yes` : "";
  return `For each: up to ${ways}${sure}, as set under “One applicant”.`;
}

/** @param {string} name @param {any[]} rows @param {number[]} numbers @param {boolean} store @param {any} start */
async function run(name, rows, numbers, store, start) {
  start.disabled = true;
  const lines = [batchRequest(store), ...rows].map((line) => JSON.stringify(line)).join("\n");
  try {
    const body = new Blob([lines], { type: "application/x-ndjson" });
    const job = await fetchJson("recourse/batch", { body });
    linesOf.set(job.id, numbers);
    await watch(job, name.replace(/\.\w+$/, ""));
  } catch (problem) {
    if (!isAborted(problem)) fill("batch-job", problemNote(problem));
  } finally {
    start.disabled = false;
  }
}

/** Show the progress of a batch, then its results. @param {Job} job @param {string} name */
async function watch(job, name) {
  $("batch-answers").hidden = true;
  const text = await runJob(job, $("batch-job"), { shown: true, read: readText });
  listJobs();
  if (text !== null) showResults(text, name, job);
}

/** @param {string} path */
const readText = async (path) => (await send(path, { headers: { Accept: "application/x-ndjson" } })).text();

/** @param {string} text @param {string} name @param {Job} job */
function showResults(text, name, job) {
  fill("batch-results", ...batchResults(text, name, linesOf.get(job.id)));
  $("batch-answers").hidden = false;
  bringUp($("batch-answers"));
}

const KINDS = /** @type {Record<string, string>} */ ({
  batch: "Many applicants",
  recourse: "One applicant",
  frontier: "A curve",
  futures: "Training of future models",
  audit: "Check of promises",
});

/** Show the latest jobs; a batch that has ended can be looked at again. */
export async function listJobs() {
  try {
    const { jobs } = await fetchJson("jobs");
    const items = jobs.slice(0, MOST_JOBS).map(jobItem);
    fill(
      "jobs",
      items.length > 0 ? h("ul.cases", {}, ...items) : h("p.hint", {}, "No work yet: what takes long is listed here."),
    );
  } catch (problem) {
    fill("jobs", problemNote(problem));
  }
}

/** @param {Job} job */
function jobItem(job) {
  const { id, kind, status, progress, created_at: created } = job;
  const name = `batch-${id.slice(-6)}`;
  const guarded = (/** @type {() => Promise<void>} */ work) => () =>
    work().catch((problem) => fill("batch-job", problemNote(problem)));
  const show = guarded(async () => showResults(await readText(/** @type {string} */ (job.result)), name, job));
  const follow = guarded(() => watch(job, name));
  const open = ["queued", "running"].includes(status);
  const button = (/** @type {string} */ words, /** @type {() => void} */ act) =>
    h("button.small", { type: "button", onclick: act, "aria-label": `${words}: ${KINDS[kind] ?? kind}, ${id}` }, words);
  return h(
    "li.job-item",
    {},
    h("span", {}, h("b", {}, KINDS[kind] ?? kind), kind === "batch" && `: ${progress.total}`),
    h("span.hint", {}, `${open ? progressText(job) : STATUSES[status]} · ${formatTime(created)}`),
    kind === "batch" && job.result !== null && button("Results", show),
    kind === "batch" && open && button("Watch", follow),
  );
}

const STATUSES = /** @type {Record<string, string>} */ ({
  succeeded: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
});
