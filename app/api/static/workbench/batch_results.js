// @ts-check
/** The answers to many applicants: a table to read, and files to take away. */

import { chance, outcome } from "./decision.js";
import { h, scrollingTable } from "./dom.js";
import { counted, rating } from "./format.js";
import { featureNamed, threshold } from "./state.js";

/** Applicants in the table; the files have all. */
const MOST_SHOWN = 200;

/**
 * @param {string} text the lines of a job's result @param {string} name of the files, without ending
 * @param {number[] | undefined} lines of the file, for each applicant; undefined where the file is no longer known
 * @returns {Node[]}
 */
export function batchResults(text, name, lines) {
  const place = { word: lines ? "Line" : "Applicant", of: (/** @type {number} */ i) => lines?.[i] ?? i + 1 };
  const answers = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  return [
    h("p", { role: "status" }, summary(answers)),
    h(
      "div.row",
      {},
      download(`${name}-ways.csv`, "text/csv", csvOf(answers, place), "Take the results as CSV"),
      download(`${name}-answers.jsonl`, "application/x-ndjson", text, "Everything as JSON lines"),
    ),
    table(answers.slice(0, MOST_SHOWN), place),
    answers.length > MOST_SHOWN && h("p.hint", {}, `The first ${MOST_SHOWN} of ${answers.length}; the files have all.`),
  ].filter(Boolean);
}

/** What came of an applicant, as a word in the table and a count above it. */
const RESULTS = /** @type {Record<string, string>} */ ({
  found: "with a way to a yes",
  already_favourable: "already a yes",
  not_found: "without a way",
  problem: "not answered",
});

/** @param {any} answer */
const resultOf = ({ status }) => (typeof status === "string" ? status : "problem");

/** @param {any[]} answers */
function summary(answers) {
  const counts = Object.entries(RESULTS).map(([result, words]) => {
    const count = answers.filter((answer) => resultOf(answer) === result).length;
    return count > 0 && `${count} ${words}`;
  });
  return `${counted(answers.length, "applicant")}: ${counts.filter(Boolean).join(", ")}.`;
}

/** @param {string} name @param {string} type @param {string} text @param {string} words */
function download(name, type, text, words) {
  const take = () => {
    const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return h("button", { type: "button", onclick: take }, words);
}

/** @typedef {{word: string, of: (i: number) => number}} Place where an applicant stands in the file */

/** @param {any[]} answers @param {Place} place */
function table(answers, place) {
  const heads = ["Applicant", "The model says", "What to change", "Then", "If the lender trains its model again"];
  const rows = answers.map((answer, i) => row(answer, `${place.word} ${place.of(i)}`));
  const names = { label: "Results as a table", caption: "What each applicant can change" };
  return scrollingTable("table.results.stack", names, heads, rows);
}

/** @param {any} answer @param {string} place of an applicant without a reference */
function row(answer, place) {
  const { reference, factual, counterfactuals: [way, ...others] = [] } = answer;
  const then = way?.validity.current;
  const future = way?.validity.future;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, reference ?? place),
    h(
      "td",
      {},
      factual && outcome(factual.favourable),
      factual && rating(factual) !== null && `, ${rating(factual, threshold())}`,
    ),
    h("td", {}, ...(way ? changes(way, others.length) : [withoutWay(answer)])),
    h("td", {}, then && chance(then)),
    h("td", {}, future?.promise),
  );
}

/** @param {any} way @param {number} more ways that are only in the files */
const changes = (way, more) =>
  [
    h("ul.plain", {}, ...way.changes.map((/** @type {any} */ { text }) => h("li", {}, text))),
    more > 0 && h("span.hint", {}, `and ${counted(more, "other way")}, in the files`),
  ].filter(Boolean);

/** Why there is nothing to change. @param {any} answer */
function withoutWay(answer) {
  if (resultOf(answer) === "already_favourable") return "Nothing needs to change.";
  if (resultOf(answer) === "not_found") return answer.detail;
  const faults = (answer.errors ?? []).map((/** @type {any} */ { pointer, detail }) => {
    const name = pointer.split("/").at(-1);
    return `${featureNamed(name)?.label ?? name} ${detail}`;
  });
  return faults.length > 0 ? `${faults.join("; ")}.` : answer.detail;
}

const COLUMNS = [
  "reference",
  "result",
  "probability_now",
  "points_now",
  "way",
  "changes",
  "probability_then",
  "points_then",
  "promise",
  "cost",
  "takes_months",
  "detail",
];

/** One line for each way, and for each applicant without one. @param {any[]} answers @param {Place} place */
function csvOf(answers, place) {
  const lines = answers.flatMap((answer, i) => {
    const now = answer.factual;
    const start = [place.of(i), answer.reference ?? "", resultOf(answer), now?.probability ?? "", now?.points ?? ""];
    const ways = (answer.counterfactuals ?? []).map((/** @type {any} */ way) => [
      ...start,
      way.rank,
      way.changes.map((/** @type {any} */ { text }) => text).join(" "),
      way.validity.current.probability ?? "",
      way.validity.current.points ?? "",
      way.validity.future?.promise ?? "",
      way.cost.total,
      way.takes_months,
      "",
    ]);
    return ways.length > 0 ? ways : [[...start, "", "", "", "", "", "", "", withoutWay(answer)]];
  });
  return [[place.word.toLowerCase(), ...COLUMNS], ...lines].map((cells) => `${cells.map(quoted).join(",")}\r\n`).join("");
}

/** A cell; one that a spreadsheet would compute is text. @param {string | number} value */
function quoted(value) {
  if (typeof value === "number") return String(value);
  const text = /^ *[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
