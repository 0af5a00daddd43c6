/** The limits of this person: what stays as it is, moves one way only, or keeps within a range. */

import { checkTyped } from "./applicant.js";
import { $, fill, h } from "./dom.js";
import { changeText, isAdvice, isNumber, schemaLimits } from "./feature.js";
import { formatNumber, formatValue, readable } from "./format.js";
import { featureNamed, state } from "./state.js";

const WAYS = { any: "either way", increase: "only up", decrease: "only down", none: "stays" };

const ENDS = { min: "not below", max: "not above" };

/** The directions that the schema leaves open. */
function waysOf(feature) {
  const { type, change } = feature;
  if (type === "binary" && change !== "any") return { any: `may change, ${changeText(feature)}`, none: WAYS.none };
  if (type === "binary" || type === "categorical") return { any: "may change", none: WAYS.none };
  return change === "any" ? WAYS : { any: WAYS[change], none: WAYS.none };
}

/** Offer the limits of another person: nothing is limited yet. */
export function offerLimits(onChange) {
  fill("limit-rows", ...state.features.filter(isAdvice).map((feature) => limitRow(feature, onChange)));
  for (const field of [$("most"), $("months")]) {
    field.value = "";
    checkTyped(field);
  }
  $("sequential").checked = false;
}

function limitRow(feature, onChange) {
  const { name, label, unit, type } = feature;
  const limits = schemaLimits(feature);
  const ways = Object.entries(waysOf(feature)).map(([way, text], i) => {
    const radio = h("input", { type: "radio", name: `way-${name}`, value: way, checked: i === 0, onchange: onChange });
    return h("label", radio, h("span", text));
  });
  const field = (id, text, control, unitText) => {
    Object.assign(control, { id: `${id}-${name}`, oninput: onChange });
    control.setAttribute("aria-label", `${label}: ${text.toLowerCase()}${unitText ? `, in ${unitText}` : ""}`);
    return h("label.typed", text, h("span.with-unit", control, unitText && h("span", unitText)));
  };
  const ends = () =>
    Object.entries(ENDS).map(([end, text]) => field(`typed-${end}`, readable(text), endControl(feature, end)));
  return h(
    "fieldset.limit",
    { id: `limit-${name}` },
    h("legend", label),
    limits && h("p.hint", `By the lender’s rules it ${limits}.`),
    h("div.ways", ...ways),
    (isNumber(feature) || type === "ordinal") && h("div.pair", ...ends()),
    isNumber(feature) &&
      h(
        "div.pair",
        field("largest", "Moves by at most", numberInput({ min: 0, placeholder: "any" }), "% of its value"),
        field("least", "If at all, by at least", numberInput({ min: 0, placeholder: "any" }), unit),
      ),
  );
}

const numberInput = (attributes) => h("input", { type: "number", step: "any", inputmode: "decimal", ...attributes });

/** An end of the range to keep within: a number, or one of the levels in order. */
function endControl(feature, end) {
  const { categories } = feature;
  if (!categories) {
    const placeholder = feature[end] === null ? "any" : formatNumber(feature[end]);
    return numberInput({ min: feature.min, max: feature.max, placeholder });
  }
  const free = freeEnd(feature, end);
  return h(
    "select",
    ...categories.map((c, i) => h("option", { value: i, selected: i === free }, formatValue(feature, c))),
  );
}

/** The level at which an end narrows nothing. */
const freeEnd = ({ categories }, end) => (end === "min" ? 0 : categories.length - 1);

/** The chosen range, if it is narrower than the schema's. */
function boundsOf(feature) {
  const { name, categories } = feature;
  const chosen = Object.keys(ENDS).flatMap((end) => {
    const { value } = $(`typed-${end}-${name}`) ?? { value: "" };
    const free = value === "" || Number(value) === (categories ? freeEnd(feature, end) : feature[end]);
    return free ? [] : [[end, categories ? categories[value] : Number(value)]];
  });
  return chosen.length > 0 ? Object.fromEntries(chosen) : null;
}

/** A typed number for each feature that has one and may change. @param id `largest` or `least` */
const typedNumbers = (id) =>
  state.features
    .filter((feature) => wayOf(feature) !== "none" && $(`${id}-${feature.name}`)?.value)
    .map(({ name }) => [name, Number($(`${id}-${name}`).value)]);

/** The directions of a feature, the one that leaves it free first. */
const radiosOf = ({ name }) => [...document.getElementsByName(`way-${name}`)];

const wayOf = (feature) => radiosOf(feature).find((radio) => radio.checked)?.value ?? "any";

export function constraints() {
  const ways = state.features.map((feature) => [feature.name, wayOf(feature)]);
  const bounds = state.features.map((f) => [f.name, wayOf(f) === "none" ? null : boundsOf(f)]);
  return {
    immutable: ways.filter(([, way]) => way === "none").map(([name]) => name),
    direction: Object.fromEntries(ways.filter(([, way]) => way === "increase" || way === "decrease")),
    bounds: Object.fromEntries(bounds.filter(([, bound]) => bound)),
    max_change: Object.fromEntries(typedNumbers("largest").map(([name, share]) => [name, { relative: share / 100 }])),
    least_change: Object.fromEntries(typedNumbers("least")),
    ...($("most").value && { max_changes: Number($("most").value) }),
  };
}

/** How much time the person has, as a part of a request. */
export const timing = () => ({
  ...($("months").value && { horizon_months: Number($("months").value) }),
  sequential: $("sequential").checked,
});

/** Of the button that gives more time. */
const TEN_YEARS = 120;

/** Remove one limit, a relaxation that an answer proposes. */
export function removeLimit({ constraint, feature: name }) {
  if (constraint === "max_changes") $("most").value = "";
  if (constraint === "horizon_months") $("months").value = TEN_YEARS;
  const feature = featureNamed(name);
  if (!feature) return;
  if (constraint === "max_change") $(`largest-${name}`).value = "";
  if (constraint === "least_change") $(`least-${name}`).value = "";
  if (constraint === "immutable" || constraint === "direction") radiosOf(feature)[0].checked = true;
  if (constraint !== "bounds") return;
  for (const end of Object.keys(ENDS))
    $(`typed-${end}-${name}`).value = feature.categories ? freeEnd(feature, end) : "";
}
