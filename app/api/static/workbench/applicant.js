// @ts-check
/** The form of the applicant: one field for each feature, with its faults. */

import { $, h } from "./dom.js";
import { rangeText } from "./feature.js";
import { counted, formatValue } from "./format.js";
import { state } from "./state.js";

/** @import { Applicant, Feature, Value } from "./types.d.ts" */

/** @param {Feature} feature @param {(feature: Feature) => void} onChange */
export function applicantField(feature, onChange) {
  const id = `f-${feature.name}`;
  const common = {
    id,
    name: feature.name,
    "aria-describedby": `${id}-hint`,
    oninput: () => (showFault(feature), onChange(feature)),
    onblur: () => showFault(feature),
  };
  const options = (feature.categories ?? []).map((c, i) => h("option", { value: i }, formatValue(feature, c)));
  const input = feature.categories
    ? h("select", common, h("option", { value: "" }, "choose"), ...options)
    : h("input", {
        ...common,
        type: "number",
        step: feature.type === "integer" ? 1 : "any",
        inputmode: "decimal",
      });
  return h(
    "div.field",
    {},
    h("label", { for: id }, feature.label),
    feature.unit ? h("span.with-unit", {}, input, h("span", {}, feature.unit)) : input,
    h("p.hint", { id: `${id}-hint` }, rangeText(feature)),
  );
}

/** The value of a field; null where it has none. @param {Feature} feature @returns {Value | null} */
export function valueOf({ name, categories }) {
  const { value } = $(`f-${name}`);
  if (value === "") return null;
  return categories ? categories[Number(value)] : Number(value);
}

const MISSING = "needs a value";

/** What is wrong with a field; empty if nothing is. @param {Feature} feature */
export function faultOf(feature) {
  const { name, type, min, max } = feature;
  const value = valueOf(feature);
  if ($(`f-${name}`).validity.badInput) return "must be a number";
  if (value === null) return MISSING;
  if (typeof value !== "number") return "";
  if (type === "integer" && !Number.isInteger(value)) return "must be a whole number";
  if (min !== null && value < min) return `must be at least ${formatValue(feature, min)}`;
  if (max !== null && value > max) return `must be at most ${formatValue(feature, max)}`;
  return "";
}

/** Show what is wrong with a field in place of its hint. @param {Feature} feature @param {boolean} [required] */
function showFault(feature, required = false) {
  const fault = faultOf(feature);
  const shown = fault !== "" && (required || fault !== MISSING);
  const hint = $(`f-${feature.name}-hint`);
  $(`f-${feature.name}`).setAttribute("aria-invalid", String(shown));
  hint.textContent = shown ? `${feature.label} ${fault}.` : rangeText(feature);
  hint.classList.toggle("fault", shown);
}

/** @returns {Feature[]} those whose fields are empty or wrong */
export const faultyFeatures = () => state.features.filter(faultOf);

/** @param {number} count of faulty fields */
export const faultText = (count) => `${counted(count, "field")} to fill in or correct.`;

/** Show every fault, missing values too. @returns {Feature[]} the faulty features; the first one has the focus */
export function checkApplicant() {
  for (const feature of state.features) showFault(feature, true);
  const faulty = faultyFeatures();
  if (faulty.length > 0) $(`f-${faulty[0].name}`).focus();
  return faulty;
}

/** @returns {Applicant} */
export const applicant = () =>
  Object.fromEntries(state.features.map((feature) => [feature.name, /** @type {Value} */ (valueOf(feature))]));

/** @param {Applicant} record */
export function fillApplicant(record) {
  for (const feature of state.features) {
    const value = record[feature.name];
    const { categories } = feature;
    $(`f-${feature.name}`).value = categories ? categories.indexOf(/** @type {any} */ (value)) : value;
    showFault(feature, true);
  }
}
