// @ts-check
/** Derived features: the service computes them, the page shows them. */

import { $, h } from "./dom.js";
import { formatValue } from "./format.js";
import { baseFeatures, state } from "./state.js";

/** @import { Applicant, Feature } from "./types.d.ts" */

const derivedFeatures = () => state.features.filter((feature) => feature.derived !== null);

/** @param {Applicant} record @returns {string} the same for records that are sent alike */
const keyOf = (record) => JSON.stringify(baseFeatures().map(({ name }) => record[name]));

/** The record in the form, and what follows from it. */
let known = { key: "", values: /** @type {Applicant} */ ({}) };

/** Show what follows from the record in the form. @param {Applicant | null} record @param {Applicant} values */
export function showDerived(record, values = {}) {
  known = { key: record ? keyOf(record) : "", values };
  for (const feature of derivedFeatures())
    $(`f-${feature.name}`).textContent = record ? formatValue({ ...feature, unit: null }, values[feature.name]) : "";
}

/** What follows from a change, in words. @param {any} counterfactual */
export function followList({ applicant, changes }) {
  const before = { ...applicant };
  for (const { feature, from } of changes) before[feature] = from;
  const values = keyOf(before) === known.key ? known.values : null;
  const changed = derivedFeatures().filter(({ name }) => !values || values[name] !== applicant[name]);
  const item = (/** @type {Feature} */ feature) => {
    const to = formatValue(feature, applicant[feature.name]);
    const from = values && `from ${formatValue(feature, values[feature.name])} `;
    return h("li", {}, `${feature.label}: ${from ?? ""}to ${to}`);
  };
  return changed.length > 0 && h("div", {}, h("p", {}, "What follows from it:"), h("ul.follows", {}, ...changed.map(item)));
}
