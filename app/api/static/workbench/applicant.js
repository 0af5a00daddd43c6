/** The form of the applicant, and typed numbers beside it: what is wrong is said at its field, and nothing is sent. */

import { $, h } from "./dom.js";
import { rangeText, statesOf } from "./feature.js";
import { counted, formatNumber, formatValue, meaningOf } from "./format.js";
import { baseFeatures } from "./state.js";

/** @returns what is wrong with a typed number; empty if nothing is */
function typedFault({ validity, min, max, step }) {
  const [low, high] = [min, max].map((end) => end !== "" && formatNumber(Number(end)));
  const range = low && high ? `from ${low} to ${high}` : low ? `that is at least ${low}` : `that is at most ${high}`;
  if (validity.badInput) return "Type a number.";
  if (validity.valueMissing || validity.rangeUnderflow || validity.rangeOverflow) return `Type a number ${range}.`;
  return validity.stepMismatch && step === "1" ? "Type a whole number." : "";
}

/** Show what is wrong with a typed number, or that nothing is. @returns whether it is right */
export function checkTyped(input) {
  const fault = typedFault(input);
  const place = input.closest(".field, .typed, .chip") ?? input.parentElement;
  const shown = place.querySelector(":scope > .fault");
  if (fault === "") shown?.remove();
  else if (shown) shown.textContent = fault;
  else place.append(h("span.fault.hint", { role: "alert" }, fault));
  input.setAttribute("aria-invalid", String(fault !== ""));
  return fault === "";
}

/** The typed numbers with a fault, apart from the applicant's. */
export const faultyTyped = () =>
  [...document.querySelectorAll("#view-one [type=number][aria-invalid=true]")].filter(
    (input) => !input.closest("#fields"),
  );

export function watchTyped() {
  addEventListener(
    "input",
    ({ target }) => target.type === "number" && !target.closest("#fields") && checkTyped(target),
    { capture: true },
  );
}

// --- the form of the applicant: one field for each feature, with its faults ---

/** Of the option for a missing category. */
const NONE = "missing";

export function applicantField(feature, onChange) {
  const id = `f-${feature.name}`;
  const common = {
    id,
    name: feature.name,
    "aria-describedby": `${id}-hint`,
    oninput: () => (showFault(feature), onChange(feature)),
    onblur: () => showFault(feature),
  };
  const input = feature.derived !== null ? h("output", common) : control(feature, common);
  return h(
    "div.field",
    h("label", { for: id }, feature.label),
    h(
      "div.entry",
      feature.unit && !feature.categories ? h("span.with-unit", input, h("span", feature.unit)) : input,
      !feature.categories && stateBoxes(feature, onChange),
    ),
    h("p.hint", { id: `${id}-hint` }, rangeText(feature)),
  );
}

function control(feature, common) {
  const { categories, missing, type } = feature;
  if (categories) {
    const options = categories.map((c, i) => h("option", { value: i }, formatValue(feature, c)));
    const none = missing && h("option", { value: NONE }, formatValue(feature, null));
    return h("select", common, h("option", { value: "" }, "choose"), ...options, none);
  }
  return h("input", {
    ...common,
    type: "number",
    step: type === "integer" ? 1 : "any",
    inputmode: "decimal",
    // Who types a code means its state.
    onchange: () => setValue(feature, valueOf(feature)),
  });
}

/** What a number may be instead of a quantity, to be ticked. */
function stateBoxes(feature, onChange) {
  const states = feature.derived === null ? statesOf(feature) : [];
  const box = (value, i) => {
    const tick = ({ target }) => {
      setValue(feature, target.checked ? value : undefined);
      showFault(feature);
      onChange(feature);
    };
    const input = h("input", { type: "checkbox", id: `f-${feature.name}-state-${i}`, onchange: tick });
    return h("label", input, h("span", formatValue(feature, value)));
  };
  return (
    states.length > 0 &&
    h("div.ways", { role: "group", "aria-label": `${feature.label}: no number` }, ...states.map(box))
  );
}

const stateOf = (feature) => statesOf(feature).find((_, i) => $(`f-${feature.name}-state-${i}`)?.checked);

/** The value of a field; undefined where nothing is entered. */
export function valueOf(feature) {
  const { name, categories } = feature;
  const { value } = $(`f-${name}`);
  if (categories) return value === "" ? undefined : value === NONE ? null : categories[Number(value)];
  const state = stateOf(feature);
  if (state !== undefined) return state;
  return value === "" ? undefined : Number(value);
}

/** @param value undefined for none */
function setValue(feature, value) {
  const { name, categories } = feature;
  const field = $(`f-${name}`);
  if (categories) {
    field.value = value === undefined ? "" : value === null ? NONE : categories.indexOf(value);
    return;
  }
  const states = statesOf(feature);
  states.forEach((state, i) => ($(`f-${name}-state-${i}`).checked = state === value));
  field.disabled = states.some((state) => state === value);
  field.value = field.disabled ? "" : (value ?? "");
}

export const EMPTY = "needs a value";

/** What is wrong with a field; empty if nothing is. */
export function faultOf(feature) {
  const value = valueOf(feature);
  if ($(`f-${feature.name}`).validity.badInput) return numberText(feature);
  if (value === undefined) return EMPTY;
  return typeof value !== "number" || meaningOf(feature, value) !== undefined ? "" : valueFault(feature, value);
}

export const numberText = ({ type }) => (type === "integer" ? "must be a whole number" : "must be a number");

/** What is wrong with a number; empty if nothing is. */
export function valueFault(feature, value) {
  const { type, min, max } = feature;
  if (type === "integer" && !Number.isInteger(value)) return numberText(feature);
  if (min !== null && value < min) return `must be at least ${formatValue(feature, min)}`;
  if (max !== null && value > max) return `must be at most ${formatValue(feature, max)}`;
  return "";
}

function showFault(feature, required = false) {
  const fault = faultOf(feature);
  const shown = fault !== "" && (required || fault !== EMPTY);
  const hint = $(`f-${feature.name}-hint`);
  $(`f-${feature.name}`).setAttribute("aria-invalid", String(shown));
  hint.textContent = shown ? `${feature.label} ${fault}.` : rangeText(feature);
  hint.classList.toggle("fault", shown);
}

/** @returns those whose fields are empty or wrong */
export const faultyFeatures = () => baseFeatures().filter(faultOf);

export const faultText = (count) => `${counted(count, "field")} to fill in or correct.`;

/** Show every fault, missing values too. @returns the faulty features; the first one has the focus */
export function checkApplicant() {
  for (const feature of baseFeatures()) showFault(feature, true);
  const faulty = faultyFeatures();
  if (faulty.length > 0) $(`f-${faulty[0].name}`).focus();
  return faulty;
}

export const applicant = () => Object.fromEntries(baseFeatures().map((feature) => [feature.name, valueOf(feature)]));

/** @param record where it has no value, the field is empty */
export function fillApplicant(record) {
  for (const feature of baseFeatures()) {
    setValue(feature, record[feature.name]);
    showFault(feature, record[feature.name] !== undefined);
  }
}
