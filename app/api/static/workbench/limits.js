// @ts-check
/** The limits of this person: what stays as it is, moves one way only, or keeps within a range. */

import { faultOf, valueOf } from "./applicant.js";
import { $, fill, h } from "./dom.js";
import { along, changeText, isAdvice, schemaLimits, track } from "./feature.js";
import { formatValue, readable } from "./format.js";
import { featureNamed, state } from "./state.js";
import { checkTyped } from "./typed.js";

/** @import { Feature, Relaxation } from "./types.d.ts" */

const WAYS = { any: "either way", increase: "only up", decrease: "only down", none: "stays" };

const ENDS = /** @type {const} */ (["min", "max"]);

/** The directions that the schema leaves open. @param {Feature} feature */
function waysOf(feature) {
  const { type, change } = feature;
  if (type === "binary" && change !== "any") return { any: `may change, ${changeText(feature)}`, none: WAYS.none };
  if (type === "binary" || type === "categorical") return { any: "may change", none: WAYS.none };
  return change === "any" ? WAYS : { any: WAYS[/** @type {"increase"} */ (change)], none: WAYS.none };
}

/** Offer the limits of another person: nothing is limited yet. @param {() => void} onChange */
export function offerLimits(onChange) {
  fill("limit-rows", ...state.features.map((feature) => limitRow(feature, onChange)));
  for (const feature of state.features) showBounds(feature);
  for (const field of [$("most"), $("months")]) {
    field.value = "";
    checkTyped(field);
  }
  $("sequential").checked = false;
}

/** @param {Feature} feature @param {() => void} onChange @returns {any} null for a feature that never changes */
function limitRow(feature, onChange) {
  if (!isAdvice(feature)) return null;
  const { name, label } = feature;
  const limits = schemaLimits(feature);
  const ways = Object.entries(waysOf(feature)).map(([way, text], i) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name: `way-${name}`, value: way, checked: i === 0, onchange: onChange }),
      h("span", {}, text),
    ),
  );
  return h(
    "fieldset.limit",
    { id: `limit-${name}` },
    h("legend", {}, label),
    limits && h("p.hint", {}, `By the lender’s rules it ${limits}.`),
    h("div.ways", {}, ...ways),
    ...rangeParts(feature, onChange),
    isNumber(feature) && changeLimits(feature, onChange),
  );
}

/** @param {Feature} feature */
const isNumber = ({ type }) => type === "continuous" || type === "integer";

/**
 * The range to keep within: two handles on a track, and the same typed.
 * @param {Feature} feature @param {() => void} onChange
 */
function rangeParts(feature, onChange) {
  const ends = track(feature);
  if (!ends && !isNumber(feature)) return [];
  const { name, label } = feature;
  const texts = { min: "not below", max: "not above" };
  const handle = (/** @type {"min" | "max"} */ end) =>
    h("input", {
      type: "range",
      id: `${end}-${name}`,
      ...ends,
      value: ends?.[end],
      "aria-label": `${label}: ${texts[end]}`,
      oninput: () => (followHandle(feature, end), showBounds(feature, end), onChange()),
    });
  const typed = (/** @type {"min" | "max"} */ end) => {
    const id = `typed-${end}-${name}`;
    const change = () => (followTyped(feature, end), showBounds(feature, end), onChange());
    const common = { id, "aria-label": `${label}: ${texts[end]}, typed`, onchange: change };
    return h("label.typed", {}, readable(texts[end]), typedControl(feature, end, common));
  };
  return [
    ends && h("div.track", {}, h("i"), h("b", { hidden: true }), handle("min"), handle("max")),
    h("div.pair", {}, typed("min"), typed("max")),
    ends && h("output.hint", {}, ""),
  ];
}

/** @param {Feature} feature @param {"min" | "max"} end @param {Record<string, any>} common attributes */
function typedControl(feature, end, common) {
  const { categories } = feature;
  if (!categories)
    return h("input", {
      ...common,
      type: "number",
      min: feature.min,
      max: feature.max,
      step: "any",
      inputmode: "decimal",
      placeholder: "any",
    });
  const free = end === "min" ? 0 : categories.length - 1;
  return h("select", common, ...categories.map((c, i) => h("option", { value: i, selected: i === free }, formatValue(feature, c))));
}

/** How far a number moves, at most and at least. @param {Feature} feature @param {() => void} onChange */
function changeLimits(feature, onChange) {
  const { name, label, unit } = feature;
  const field = (/** @type {string} */ id, /** @type {string} */ text, /** @type {string | null} */ unitText) =>
    h(
      "label.typed",
      {},
      text,
      h(
        "span.with-unit",
        {},
        h("input", {
          type: "number",
          id: `${id}-${name}`,
          min: 0,
          step: "any",
          inputmode: "decimal",
          placeholder: "any",
          "aria-label": `${label}: ${text.toLowerCase()}${unitText ? `, in ${unitText}` : ""}`,
          oninput: onChange,
        }),
        unitText && h("span", {}, unitText),
      ),
    );
  return h(
    "div.pair",
    {},
    field("largest", "Moves by at most", "% of its value"),
    field("least", "If at all, by at least", unit),
  );
}

/** Let the typed end take the place of its handle. @param {Feature} feature @param {"min" | "max"} end */
function followHandle(feature, end) {
  const ends = track(feature);
  const [typed, handle] = [$(`typed-${end}-${feature.name}`), $(`${end}-${feature.name}`)];
  const free = !feature.categories && Number(handle.value) === ends?.[end];
  typed.value = free ? "" : handle.value;
}

/** Let the handle take the place that was typed. @param {Feature} feature @param {"min" | "max"} end */
function followTyped(feature, end) {
  const ends = track(feature);
  const [typed, handle] = [$(`typed-${end}-${feature.name}`), $(`${end}-${feature.name}`)];
  if (!ends) return;
  handle.value = typed.value === "" ? ends[end] : typed.value;
}

/**
 * Show the range of a feature in words, and keep its two ends in order.
 * @param {Feature} feature @param {"min" | "max"} [moved]
 */
function showBounds(feature, moved) {
  const { name, categories } = feature;
  const row = $(`limit-${name}`);
  const ends = track(feature);
  if (!row || !ends) return;
  const [low, high] = ENDS.map((end) => $(`${end}-${name}`));
  if (Number(low.value) > Number(high.value)) {
    const [from, to] = moved === "min" ? [low, high] : [high, low];
    to.value = from.value;
    followHandle(feature, moved === "min" ? "max" : "min");
  }
  const text = (/** @type {"min" | "max"} */ end) => {
    const at = endOf(feature, end) ?? ends[end];
    return formatValue(feature, categories ? categories[at] : at);
  };
  ENDS.forEach((end) => $(`${end}-${name}`).setAttribute("aria-valuetext", text(end)));
  const share = (/** @type {any} */ handle) => `${(100 * (handle.value - ends.min)) / (ends.max - ends.min)}%`;
  row.style.setProperty("--low", share(low));
  row.style.setProperty("--high", share(high));
  row.querySelector("output").textContent = boundsOf(feature)
    ? `Kept between ${text("min")} and ${text("max")}`
    : `Anything from ${text("min")} to ${text("max")}`;
}

/** One end of the chosen range; null where nothing narrows it. @param {Feature} feature @param {"min" | "max"} end */
function endOf(feature, end) {
  const { value } = $(`typed-${end}-${feature.name}`) ?? { value: "" };
  return value === "" || Number(value) === track(feature)?.[end] ? null : Number(value);
}

/** Show on its track where the applicant is now. @param {Feature} feature */
export function markCurrent(feature) {
  const mark = $(`limit-${feature.name}`)?.querySelector(".track b");
  if (!mark) return;
  const at = faultOf(feature) ? null : along(feature, valueOf(feature) ?? null);
  mark.hidden = at === null;
  mark.style.setProperty("--at", `${100 * (at ?? 0)}%`);
  mark.title = "now";
}

/** The chosen range, if it is narrower than the schema's. @param {Feature} feature */
function boundsOf(feature) {
  const [min, max] = ENDS.map((end) => endOf(feature, end));
  const value = (/** @type {number} */ at) => feature.categories?.[at] ?? at;
  const bounds = { ...(min !== null && { min: value(min) }), ...(max !== null && { max: value(max) }) };
  return Object.keys(bounds).length > 0 ? bounds : null;
}

/**
 * A typed number for each feature that has one and may change.
 * @param {"largest" | "least"} id @returns {[string, number][]}
 */
const typedNumbers = (id) =>
  state.features
    .filter((feature) => wayOf(feature) !== "none" && $(`${id}-${feature.name}`)?.value)
    .map(({ name }) => [name, Number($(`${id}-${name}`).value)]);

/** @param {Feature} feature @returns {string} the chosen direction */
const wayOf = ({ name }) =>
  /** @type {any} */ (document.querySelector(`input[name="way-${CSS.escape(name)}"]:checked`))?.value ?? "any";

/** The limits as `constraints` of a request. */
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

/** Remove one limit. @param {Relaxation} relaxation */
export function removeLimit({ constraint, feature: name }) {
  if (constraint === "max_changes") $("most").value = "";
  if (constraint === "horizon_months") $("months").value = TEN_YEARS;
  const feature = featureNamed(name);
  if (!feature) return;
  if (constraint === "max_change") $(`largest-${name}`).value = "";
  if (constraint === "least_change") $(`least-${name}`).value = "";
  if (constraint === "bounds") freeBounds(feature);
  if (constraint === "immutable" || constraint === "direction") {
    /** @type {any} */ (document.querySelector(`input[name="way-${CSS.escape(feature.name)}"]`)).checked = true;
  }
}

/** @param {Feature} feature */
function freeBounds(feature) {
  for (const end of ENDS) {
    const typed = $(`typed-${end}-${feature.name}`);
    typed.value = feature.categories ? track(feature)?.[end] : "";
    followTyped(feature, end);
  }
  showBounds(feature);
}
