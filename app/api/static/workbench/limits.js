// @ts-check
/** The limits of this person: what stays as it is, moves one way only, or keeps within a range. */

import { faultOf, valueOf } from "./applicant.js";
import { $, h } from "./dom.js";
import { along, changeText, isAdvice, track } from "./feature.js";
import { formatValue } from "./format.js";
import { featureNamed, state } from "./state.js";

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

/** @param {Feature} feature @param {() => void} onChange @returns {any} null for a feature that never changes */
export function limitRow(feature, onChange) {
  if (!isAdvice(feature)) return null;
  const { name, label } = feature;
  const ends = track(feature);
  const ways = Object.entries(waysOf(feature)).map(([way, text], i) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name: `way-${name}`, value: way, checked: i === 0, onchange: onChange }),
      h("span", {}, text),
    ),
  );
  const handle = (/** @type {"min" | "max"} */ end, /** @type {string} */ text) =>
    h("input", {
      type: "range",
      id: `${end}-${name}`,
      ...ends,
      value: ends?.[end],
      "aria-label": `${label}: ${text}`,
      oninput: () => (showBounds(feature, end), onChange()),
    });
  return h(
    "fieldset.limit",
    { id: `limit-${name}` },
    h("legend", {}, label),
    h("div.ways", {}, ...ways),
    ends &&
      h("div.track", {}, h("i"), h("b", { hidden: true }), handle("min", "not below"), handle("max", "not above")),
    ends && h("output.hint", {}, ""),
  );
}

/**
 * Show the range of a feature in words, and keep its two handles in order.
 * @param {Feature} feature @param {"min" | "max"} [moved]
 */
export function showBounds(feature, moved) {
  const { name, categories } = feature;
  const row = $(`limit-${name}`);
  const ends = track(feature);
  if (!row || !ends) return;
  const [low, high] = ENDS.map((end) => $(`${end}-${name}`));
  if (Number(low.value) > Number(high.value)) {
    if (moved === "min") high.value = low.value;
    else low.value = high.value;
  }
  const text = (/** @type {any} */ handle) =>
    formatValue(feature, categories ? categories[Number(handle.value)] : Number(handle.value));
  for (const handle of [low, high]) handle.setAttribute("aria-valuetext", text(handle));
  const share = (/** @type {any} */ handle) => `${(100 * (handle.value - ends.min)) / (ends.max - ends.min)}%`;
  row.style.setProperty("--low", share(low));
  row.style.setProperty("--high", share(high));
  row.querySelector("output").textContent = boundsOf(feature)
    ? `Kept between ${text(low)} and ${text(high)}`
    : `Anything from ${text(low)} to ${text(high)}`;
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
  const { name, categories } = feature;
  const ends = track(feature);
  if (!ends || !$(`min-${name}`)) return null;
  const [low, high] = ENDS.map((end) => Number($(`${end}-${name}`).value));
  const value = (/** @type {number} */ at) => (categories ? categories[at] : at);
  const bounds = { ...(low > ends.min && { min: value(low) }), ...(high < ends.max && { max: value(high) }) };
  return Object.keys(bounds).length > 0 ? bounds : null;
}

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
  if (constraint === "bounds") for (const end of ENDS) $(`${end}-${name}`).value = track(feature)?.[end];
  else /** @type {any} */ (document.querySelector(`input[name="way-${CSS.escape(feature.name)}"]`)).checked = true;
  showBounds(feature);
}
