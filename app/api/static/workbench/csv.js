/** Applicants in a file of separated values: one in each line, under the names or labels of the features. */

import { EMPTY, numberText, valueFault } from "./applicant.js";
import { isNumber } from "./feature.js";
import { formatValue, meaningOf } from "./format.js";
import { baseFeatures, derivedFeatures } from "./state.js";

/** Columns that hold the lender's own name of a case. */
const REFERENCES = ["reference", "case", "id"];

/** Characters of such a name. */
const LONGEST_REFERENCE = 200;
const TOO_LONG = `The reference has more than ${LONGEST_REFERENCE} characters`;

/** A cell: quoted, with doubled quotes inside, or up to the next separator or end of line. */
const cellPattern = (separator) =>
  new RegExp(`(?:"((?:[^"]|"")*)"|([^"${separator}\\r\\n][^${separator}\\r\\n]*)?)(${separator}|\\r?\\n|\\r|$)`, "y");

/** The separator that the first line has most of. */
function separatorOf(text) {
  const [line] = text.split(/[\r\n]/, 1);
  const count = (one) => line.split(one).length;
  return [",", ";", "\t"].reduce((best, one) => (count(one) > count(best) ? one : best));
}

/** The lines of a text as cells, without those that are empty, each with its number in the file. */
function parseCells(text) {
  const source = text.replace(/^\uFEFF/, "");
  const pattern = cellPattern(separatorOf(source));
  const lines = [];
  let cells = [];
  let [line, next] = [1, 1];
  while (pattern.lastIndex < source.length) {
    const [all, quoted, plain, end] = pattern.exec(source) ?? unreadable(next);
    cells.push((quoted?.replaceAll('""', '"') ?? plain ?? "").trim());
    // A quoted cell may hold several lines.
    next += all.split(/\r\n|\r|\n/).length - 1;
    if (/^[\r\n]|^$/.test(end)) {
      lines.push({ cells, line });
      [cells, line] = [[], next];
    }
  }
  if (cells.length > 0) lines.push({ cells: [...cells, ""], line });
  return lines.filter((one) => one.cells.some((cell) => cell !== ""));
}

function unreadable(line) {
  throw new SyntaxError(`Line ${line} has a quotation mark that is not closed, or text after a closing one.`);
}

const key = (text) => text.trim().toLowerCase();

/** The applicants in a text, with what is wrong with them. @throws {SyntaxError} what the file lacks as a whole */
export function readRecords(text) {
  const [first, ...lines] = parseCells(text);
  if (!first) throw new SyntaxError("The file is empty.");
  const header = first.cells;
  const names = header.map(key);
  const place = ({ name, label }) => names.findIndex((one) => one === key(name) || one === key(label));
  const features = baseFeatures().map((feature) => ({ feature, at: place(feature) }));
  const lacking = features.filter(({ at }) => at < 0).map(({ feature }) => feature.name);
  if (lacking.length > 0) throw new SyntaxError(`The first line lacks these columns: ${lacking.join(", ")}.`);
  if (lines.length === 0) throw new SyntaxError("The file has names of columns, but no applicants below them.");
  const reference = names.findIndex((name) => REFERENCES.includes(name));
  const used = new Set([...features.map(({ at }) => at), reference, ...derivedFeatures().map(place)]);
  const numbers = features.filter(({ feature }) => isNumber(feature));
  const points = lines.some(({ cells }) => numbers.some(({ at }) => cells[at]?.includes(".")));
  const decimal = separatorOf(text) !== "," && !points ? "," : ".";
  const rows = lines.map(({ cells }) => ({
    ...(reference >= 0 && cells[reference] && { reference: cells[reference] }),
    applicant: Object.fromEntries(
      features.map(({ feature, at }) => [feature.name, valueOf(feature, cells[at] ?? "", decimal)]),
    ),
  }));
  const faults = rows.flatMap((row, i) => {
    const texts = features.map(({ feature }) => {
      const fault = faultOf(feature, row.applicant[feature.name]);
      return fault && `${feature.label} ${fault}`;
    });
    if ([...(row.reference ?? "")].length > LONGEST_REFERENCE) texts.push(TOO_LONG);
    return texts.filter(Boolean).map((fault) => ({ line: lines[i].line, text: fault }));
  });
  return { rows, lines: lines.map(({ line }) => line), faults, unused: header.filter((_, i) => !used.has(i)) };
}

/** What a cell holds; its text where that is no value of the feature. */
function valueOf(feature, text, decimal) {
  if (text === "") return null;
  if (feature.categories) return levelOf(feature, text) ?? text;
  const number = text.replace(decimal, ".");
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(number) ? Number(number) : text;
}

/** Other words for the values of a feature that is true or false. */
const WORDS = { true: true, 1: true, false: false, 0: false };

function levelOf(feature, text) {
  const named = feature.categories?.find((level) =>
    [formatValue(feature, level), String(level)].map(key).includes(key(text)),
  );
  return named ?? (feature.type === "binary" ? WORDS[key(text)] : undefined);
}

/** @returns empty if nothing is wrong */
function faultOf(feature, value) {
  if (value === null) return feature.missing ? "" : EMPTY;
  if (feature.categories) {
    const levels = feature.categories.map((level) => formatValue(feature, level));
    return feature.categories.includes(value) ? "" : `is “${value}”, and must be one of: ${levels.join(", ")}`;
  }
  if (typeof value !== "number") return `is “${value}”, and ${numberText(feature)}`;
  return meaningOf(feature, value) === undefined ? valueFault(feature, value) : "";
}
