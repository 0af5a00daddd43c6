/** What the model's schema allows for one feature: its range, and how it can change. */

import { counted, formatNumber, formatShort, formatValue } from "./format.js";
import { featureNamed } from "./state.js";

/** How a feature can change, in words. */
export function changeText({ change, type, ...feature }) {
  if (feature.protected) return "protected, never part of advice";
  if (feature.moves_with_time !== null) return "moves with time, never part of advice";
  if (change === "none") return "fixed, never part of advice";
  if (change === "any") return type === "categorical" || type === "binary" ? "can change" : "up or down";
  const up = change === "increase";
  return type === "binary" ? `only to ${up ? "yes" : "no"}` : `only ${up ? "up" : "down"}`;
}

/** Whether advice can change a feature. */
export const isAdvice = ({ change, derived, moves_with_time: moves, ...feature }) =>
  change !== "none" && derived === null && moves === null && !feature.protected;

export const isNumber = ({ type }) => type === "continuous" || type === "integer";

/** What advice may propose, in words; empty where that is what a record may hold. */
function adviceText(feature) {
  const { min, max, categories } = feature.advice;
  if (!isAdvice(feature)) return "";
  if (categories) return `advice: ${categories.map((level) => formatValue(feature, level)).join(", ")}`;
  return min === null && max === null ? "" : `advice: ${between(feature, min, max)}`;
}

/** What limits the changes of a feature by the schema, in words; empty where nothing does. */
export function schemaLimits(feature) {
  const { takes, max_change: most, least_change: least, provide_cost: provide, unit } = feature;
  const largest = most && [
    most.relative !== null && `${formatShort(100 * most.relative)}% of its value`,
    most.absolute !== null && formatValue(feature, most.absolute),
  ];
  const time = [
    takes.months > 0 && counted(takes.months, "month"),
    takes.months_per_unit > 0 && `${formatShort(takes.months_per_unit)} months for each ${unit ?? "unit"}`,
    takes.months_per_level > 0 && `${formatShort(takes.months_per_level)} months for each level`,
  ];
  const parts = [
    largest && `moves by at most ${largest.filter(Boolean).join(" and ")}`,
    least !== null && `by at least ${formatValue(feature, least)} if it moves`,
    time.some(Boolean) && `takes ${time.filter(Boolean).join(" and ")}`,
    provide !== null && `can be provided where it is missing, at cost ${formatShort(provide)}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

function between(feature, min, max) {
  const low = min === null ? "" : max === null ? `from ${formatValue(feature, min)}` : formatNumber(min);
  const high = max === null ? "" : `${min === null ? "up " : ""}to ${formatValue(feature, max)}`;
  return `${low} ${high}`.trim();
}

/** What a number may be instead of a quantity. */
export const statesOf = ({ missing, special }) => [...(missing ? [null] : []), ...Object.keys(special).map(Number)];

/** How a feature follows from others, with their labels. */
const formulaText = (derived) => `computed: ${derived.replace(/\w+/g, (word) => featureNamed(word)?.label ?? word)}`;

/** The allowed values, as a hint. */
export function rangeText(feature) {
  const { min, max, categories, derived } = feature;
  if (derived !== null) return formulaText(derived);
  const range = categories ? "" : between(feature, min, max) || "any number";
  return [range, changeText(feature), adviceText(feature)].filter(Boolean).join(" · ");
}
