// @ts-check
/** Applicants in a file of separated values: one in each line, under the names or labels of the features. */

import { EMPTY, valueFault } from "./applicant.js";
import { formatValue, meaningOf } from "./format.js";
import { baseFeatures, derivedFeatures } from "./state.js";

/** @import { Feature, FileRecords, Value } from "./types.d.ts" */

/** Columns that hold the lender's own name of a case. */
const REFERENCES = ["reference", "case", "id"];

/** A cell: quoted, with doubled quotes inside, or up to the next separator or end of line. @param {string} separator */
const cellPattern = (separator) =>
  new RegExp(`(?:"((?:[^"]|"")*)"|([^"${separator}\\r\\n][^${separator}\\r\\n]*)?)(${separator}|\\r?\\n|\\r|$)`, "y");

/** The separator that the first line has most of. @param {string} text */
function separatorOf(text) {
  const [line] = text.split(/[\r\n]/, 1);
  const count = (/** @type {string} */ one) => line.split(one).length;
  return [",", ";", "\t"].reduce((best, one) => (count(one) > count(best) ? one : best));
}

/** The lines of a text as cells, without those that are empty. @param {string} text @returns {string[][]} */
export function parseCells(text) {
  const source = text.replace(/^\uFEFF/, "");
  const pattern = cellPattern(separatorOf(source));
  const lines = [];
  let line = /** @type {string[]} */ ([]);
  while (pattern.lastIndex < source.length) {
    const [, quoted, plain, end] = /** @type {RegExpExecArray} */ (
      pattern.exec(source) ?? unreadable(lines.length + 1)
    );
    line.push((quoted?.replaceAll('""', '"') ?? plain ?? "").trim());
    if (/^[\r\n]|^$/.test(end)) {
      lines.push(line);
      line = [];
    }
  }
  if (line.length > 0) lines.push([...line, ""]);
  return lines.filter((cells) => cells.some((cell) => cell !== ""));
}

/** @param {number} line @returns {never} */
function unreadable(line) {
  throw new SyntaxError(`Line ${line} has a quotation mark that is not closed, or text after a closing one.`);
}

/** @param {string} text */
const key = (text) => text.trim().toLowerCase();

/**
 * The applicants in a text, with what is wrong with them.
 * @param {string} text @returns {FileRecords}
 * @throws {SyntaxError} what the file lacks as a whole
 */
export function readRecords(text) {
  const [header, ...lines] = parseCells(text);
  if (!header) throw new SyntaxError("The file is empty.");
  const names = header.map(key);
  const place = (/** @type {Feature} */ { name, label }) =>
    names.findIndex((one) => one === key(name) || one === key(label));
  const features = baseFeatures().map((feature) => ({ feature, at: place(feature) }));
  const lacking = features.filter(({ at }) => at < 0).map(({ feature }) => feature.name);
  if (lacking.length > 0) throw new SyntaxError(`The first line lacks these columns: ${lacking.join(", ")}.`);
  if (lines.length === 0) throw new SyntaxError("The file has names of columns, but no applicants below them.");
  const reference = names.findIndex((name) => REFERENCES.includes(name));
  const used = new Set([...features.map(({ at }) => at), reference, ...derivedFeatures().map(place)]);
  const rows = lines.map((cells) => ({
    ...(reference >= 0 && cells[reference] && { reference: cells[reference] }),
    applicant: Object.fromEntries(features.map(({ feature, at }) => [feature.name, valueOf(feature, cells[at] ?? "")])),
  }));
  const faults = rows.flatMap(({ applicant }, i) =>
    features.flatMap(({ feature }) => {
      const fault = faultOf(feature, applicant[feature.name]);
      return fault ? [{ line: i + 2, text: `${feature.label} ${fault}` }] : [];
    }),
  );
  return { rows, faults, unused: header.filter((_, i) => !used.has(i)) };
}

/** What a cell holds; its text where that is no value of the feature. @param {Feature} feature @param {string} text */
function valueOf(feature, text) {
  if (text === "") return null;
  if (feature.categories) return levelOf(feature, text) ?? text;
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : text;
}

/** Other words for the values of a feature that is true or false. */
const WORDS = /** @type {Record<string, boolean>} */ ({ true: true, 1: true, false: false, 0: false });

/** @param {Feature} feature @param {string} text @returns {Value | undefined} */
function levelOf(feature, text) {
  const named = feature.categories?.find((level) => key(formatValue(feature, level)) === key(text));
  return named ?? (feature.type === "binary" ? WORDS[key(text)] : undefined);
}

/** @param {Feature} feature @param {Value} value @returns {string} empty if nothing is wrong */
function faultOf(feature, value) {
  if (value === null) return feature.missing ? "" : EMPTY;
  if (feature.categories) {
    const levels = feature.categories.map((level) => formatValue(feature, level));
    return feature.categories.includes(/** @type {any} */ (value))
      ? ""
      : `is “${value}”, and must be one of: ${levels.join(", ")}`;
  }
  if (typeof value !== "number") return `is “${value}”, and must be a number`;
  return meaningOf(feature, value) === undefined ? valueFault(feature, value) : "";
}
