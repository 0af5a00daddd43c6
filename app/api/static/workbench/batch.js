/** Many applicants: a file is read on the page, answered by a job that can be watched, and its results taken away. */

import { fetchJson, send } from "./api.js";
import { readRecords } from "./csv.js";
import { chance, outcome } from "./decision.js";
import { $, bringUp, button, download, fill, h, table } from "./dom.js";
import { rangeText } from "./feature.js";
import { counted, formatValue, inHundred, rating } from "./format.js";
import { isOpen, jobItem, problemNote, runJob, workButton } from "./jobs.js";
import { wayCount } from "./method.js";
import { batchRequest } from "./request.js";
import { baseFeatures, featureNamed, readyFutures, state, threshold } from "./state.js";

/** Applicants in the table; the files have all. */
const MOST_SHOWN = 200;

/**
 * @param text the lines of a job's result
 * @param name of the files, without ending
 * @param lines of the file, for each applicant; undefined where the file is no longer known
 */
function batchResults(text, name, lines) {
  const place = { word: lines ? "Line" : "Applicant", of: (i) => lines?.[i] ?? i + 1 };
  const answers = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const take = (words, content, ending, type) =>
    button(words, () => download(new Blob([content], { type }), `${name}-${ending}`));
  return [
    h("p", { role: "status" }, summary(answers)),
    h(
      "div.row",
      take("Take the results as CSV", csvOf(answers, place), "ways.csv", "text/csv"),
      take("Everything as JSON lines", text, "answers.jsonl", NDJSON),
    ),
    table(
      NAMES,
      HEADS,
      answers.slice(0, MOST_SHOWN).map((answer, i) => cells(answer, `${place.word} ${place.of(i)}`)),
    ),
    answers.length > MOST_SHOWN && h("p.hint", `The first ${MOST_SHOWN} of ${answers.length}; the files have all.`),
  ];
}

const NDJSON = "application/x-ndjson";

const NAMES = { label: "Results as a table", caption: "What each applicant can change", classes: "results stack" };

const HEADS = ["Applicant", "The model says", "What to change", "Then", "If the lender trains its model again"];

/** What came of an applicant, as a word in the table and a count above it. */
const RESULTS = {
  found: "with a way to a yes",
  already_favourable: "already a yes",
  not_found: "without a way",
  problem: "not answered",
};

const resultOf = ({ status }) => (typeof status === "string" ? status : "problem");

function summary(answers) {
  const counts = Object.entries(RESULTS).map(([result, words]) => {
    const count = answers.filter((answer) => resultOf(answer) === result).length;
    return count > 0 && `${count} ${words}`;
  });
  return `${counted(answers.length, "applicant")}: ${counts.filter(Boolean).join(", ")}.`;
}

/** A row of the table. @param place of an applicant without a reference */
function cells(answer, place) {
  const { reference, factual, counterfactuals: [way, ...others] = [] } = answer;
  const rated = factual && rating(factual, threshold());
  return [
    reference ?? place,
    factual && [outcome(factual.favourable), rated && `, ${rated}`],
    way
      ? [
          h("ul.plain", ...way.changes.map(({ text }) => h("li", text))),
          others.length > 0 && h("span.hint", `and ${counted(others.length, "other way")}, in the files`),
        ]
      : withoutWay(answer),
    way && chance(way.validity.current),
    way?.validity.future?.promise,
  ];
}

/** Why there is nothing to change. */
function withoutWay(answer) {
  if (resultOf(answer) === "already_favourable") return "Nothing needs to change.";
  if (resultOf(answer) === "not_found") return answer.detail;
  const faults = (answer.errors ?? []).map(({ pointer, detail }) => {
    const name = pointer.split("/").at(-1);
    return `${featureNamed(name)?.label ?? name} ${detail}`;
  });
  return faults.length > 0 ? `${faults.join("; ")}.` : answer.detail;
}

const COLUMNS = [
  ...["reference", "result", "probability_now", "points_now", "way", "changes", "probability_then", "points_then"],
  ...["promise", "cost", "takes_months", "detail"],
];

/** One line for each way, and for each applicant without one. */
function csvOf(answers, place) {
  const lines = answers.flatMap((answer, i) => {
    const now = answer.factual;
    const start = [place.of(i), answer.reference ?? "", resultOf(answer), now?.probability ?? "", now?.points ?? ""];
    const ways = (answer.counterfactuals ?? []).map((way) => [
      ...start,
      way.rank,
      way.changes.map(({ text }) => text).join(" "),
      way.validity.current.probability ?? "",
      way.validity.current.points ?? "",
      way.validity.future?.promise ?? "",
      way.cost.total,
      way.takes_months,
      "",
    ]);
    return ways.length > 0 ? ways : [[...start, "", "", "", "", "", "", "", withoutWay(answer)]];
  });
  return [[place.word.toLowerCase(), ...COLUMNS], ...lines]
    .map((cells) => `${cells.map(quoted).join(",")}\r\n`)
    .join("");
}

/** A cell; one that a spreadsheet would compute is text. */
function quoted(value) {
  if (typeof value === "number") return String(value);
  const text = /^ *[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// --- the file ---

/** Faults and jobs that are listed. */
const [MOST_FAULTS, MOST_JOBS] = [5, 10];

let chosen = null;

/** By the batches that were started here, the line of each applicant. */
const linesOf = new Map();

/** Read a file that the reader has chosen. */
export async function take(file) {
  if (!file) return;
  chosen = { name: file.name, ...textOf(await file.arrayBuffer()) };
  showFile();
}

/** A text in UTF-8, else in the encoding of Windows in western Europe and America. */
function textOf(bytes) {
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), guessed: false };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), guessed: true };
  }
}

/** Show what the chosen file holds, for the chosen model. */
function showFile() {
  fill("columns", h("dl.columns", ...baseFeatures().flatMap(columnEntry)), h("p.hint", ...referenceHint()));
  if (!chosen) return;
  const guessed = chosen.guessed && h("p.note.warn", GUESSED);
  try {
    fill("file-read", ...fileParts(chosen.name, readRecords(chosen.text)), guessed);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const fault = h("p.note.bad", { role: "alert" }, h("b", chosen.name), ` cannot be read. ${error.message}`);
    fill("file-read", fault, guessed);
  }
}

const columnEntry = (feature) => {
  const levels = feature.categories?.map((level) => formatValue(feature, level)).join(", ");
  return [h("dt", h("code", feature.name)), h("dd", `${feature.label}: ${levels ?? rangeText(feature)}`)];
};

const referenceHint = () => [
  "The first line names the columns, in any order. A column ",
  h("code", "reference"),
  " is returned as it is.",
];

const GUESSED =
  "The file is not in UTF-8, so it was read as Windows-1252. If letters such as “ü” are wrong, save it as UTF-8.";

function fileParts(name, { rows, lines: numbers, faults, unused }) {
  const lines = new Set(faults.map(({ line }) => line)).size;
  const store = h("input", { type: "checkbox" });
  const answer = () => run(name, rows, numbers, store.checked);
  const start = workButton(`Answer ${counted(rows.length, "applicant")}`, $("batch-job"), answer, { class: "primary" });
  const more = faults.length - MOST_FAULTS;
  return [
    h(
      "p",
      { role: "status" },
      h("b", name),
      `: ${counted(rows.length, "applicant")}. `,
      faults.length === 0 && "Every value fits the model.",
    ),
    faults.length > 0 &&
      h(
        "div.note.warn",
        h(
          "p",
          `${counted(lines, "line has a value", "lines have values")} that the model does not take. Such lines are not answered:`,
        ),
        h("ul", ...faults.slice(0, MOST_FAULTS).map(({ line, text }) => h("li", `Line ${line}: ${text}.`))),
        more > 0 && h("p.hint", `And ${counted(more, "other fault")}.`),
      ),
    unused.length > 0 && h("p.hint", `Not used: ${unused.join(", ")}.`),
    h("p.hint", askedText()),
    h("label.check", store, " Store the answers, as promises to be checked later"),
    h("div.row", start),
  ];
}

function askedText() {
  const ways = counted(wayCount() ?? 1, "way");
  const sure = readyFutures()
    ? `, to which, if applicants stay as they are, at least ${inHundred(state.share)} retrained models say yes`
    : "";
  return `For each: up to ${ways}${sure}, as set under “One applicant”.`;
}

async function run(name, rows, numbers, store) {
  const lines = [batchRequest(store), ...rows].map((line) => JSON.stringify(line)).join("\n");
  const job = await fetchJson("recourse/batch", { body: new Blob([lines], { type: NDJSON }) });
  linesOf.set(job.id, numbers);
  await watch(job, name.replace(/\.\w+$/, ""));
}

/** Show the progress of a batch, then its results. */
async function watch(job, name) {
  $("batch-answers").hidden = true;
  const text = await runJob(job, $("batch-job"), { shown: true, read: readText });
  listJobs();
  if (text !== null) showResults(text, name, job);
}

const readText = async (path) => (await send(path, { headers: { Accept: NDJSON } })).text();

function showResults(text, name, job) {
  fill("batch-results", ...batchResults(text, name, linesOf.get(job.id)));
  $("batch-answers").hidden = false;
  bringUp($("batch-answers"));
}

const KINDS = {
  batch: "Many applicants",
  recourse: "One applicant",
  frontier: "A curve",
  futures: "Training of future models",
  audit: "Check of promises",
};

/** Show the view: the chosen file, and the latest jobs. */
export const showMany = () => (showFile(), listJobs());

/** Show the latest jobs; a batch that has ended can be looked at again. */
async function listJobs() {
  try {
    const { jobs } = await fetchJson("jobs");
    const items = jobs.slice(0, MOST_JOBS).map(item);
    fill(
      "jobs",
      items.length > 0 ? h("ul.cases", ...items) : h("p.hint", "No work yet: what takes long is listed here."),
    );
  } catch (problem) {
    fill("jobs", problemNote(problem));
  }
}

function item(job) {
  const { id, kind, progress, result } = job;
  const title = KINDS[kind] ?? kind;
  if (kind !== "batch") return jobItem(job, h("b", title));
  const name = `batch-${id.slice(-6)}`;
  const act = (words, work) =>
    workButton(words, $("batch-job"), work, { class: "small", "aria-label": `${words}: ${title}, ${id}` });
  return jobItem(
    job,
    [h("b", title), `: ${progress.total}`],
    result !== null && act("Results", async () => showResults(await readText(result), name, job)),
    isOpen(job) && act("Watch", () => watch(job, name)),
  );
}
