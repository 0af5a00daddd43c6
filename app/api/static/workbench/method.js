/** What is asked for: the method with its parameters, how many ways, and how sure they should be. */

import { checkTyped } from "./applicant.js";
import { $, fill, h, prose } from "./dom.js";
import { formatNumber, inHundred, readable } from "./format.js";
import { FUTURE_VALIDITY, chosenMethod, futureNoun, readyFutures, state } from "./state.js";

// --- fields of a form that is described by JSON Schema, such as the parameters of a method ---

/** The control for a value, from its JSON Schema. */
function controlOf(schema) {
  const choices = schema.anyOf ?? [schema];
  const number = choices.find((c) => c.type === "number" || c.type === "integer");
  const words = choices.flatMap((c) => c.enum ?? []);
  if (schema.type === "boolean") return { control: "check" };
  if (number && words.length === 0)
    return { control: "number", number, optional: choices.some((c) => c.type === "null") };
  if (words.length > 0) return { control: number ? "text" : "select", number, words };
  return { control: schema.type === "string" ? "text" : "json" };
}

function limitsText({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }) {
  const low = minimum ?? exclusiveMinimum;
  const high = maximum ?? exclusiveMaximum;
  const parts = [
    low !== undefined && `${exclusiveMinimum === undefined ? "from" : "above"} ${formatNumber(low)}`,
    high !== undefined && `${exclusiveMaximum === undefined ? "to" : "below"} ${formatNumber(high)}`,
  ];
  return parts.filter(Boolean).join(" ");
}

function schemaField(name, schema, onChange) {
  const id = `p-${name}`;
  const hint = h("p.hint", { id: `${id}-hint` }, ...prose(schema.description ?? ""), defaultHint(schema));
  const common = { id, "aria-describedby": `${id}-hint`, oninput: onChange };
  if (controlOf(schema).control === "check") {
    const input = h("input", { ...common, type: "checkbox", checked: schema.default === true });
    return h("div.field", h("label.check", input, ` ${readable(name)}`), hint);
  }
  return h("div.field", h("label", { for: id }, readable(name)), input(schema, common), hint);
}

/** The limits and the default of a value. */
function defaultHint(schema) {
  const { control, number, words = [], optional } = controlOf(schema);
  const standard = optional && schema.default === null ? "empty: automatic" : number && `default ${schema.default}`;
  const parts = [number && limitsText(number), control === "text" && words.join(", "), standard].filter(Boolean);
  return parts.length > 0 && h("span.limits", ` (${parts.join("; ")})`);
}

function input(schema, common) {
  const { control, number, words = [] } = controlOf(schema);
  const value = schema.default ?? "";
  if (control === "number") {
    const step = number.type === "integer" ? 1 : "any";
    return h("input", { ...common, type: "number", step, min: number.minimum, max: number.maximum, value });
  }
  if (control === "select") {
    const options = words.map((word) => h("option", { selected: word === value }, word));
    return h("select", common, ...options);
  }
  if (control === "text") return h("input", { ...common, value, autocomplete: "off" });
  return h("textarea", { ...common, rows: 2, placeholder: "JSON, or empty" });
}

/** The values of a form that differ from their defaults. @param properties of a JSON Schema */
const schemaValues = (properties) =>
  Object.fromEntries(
    Object.entries(properties)
      .map(([name, schema]) => [name, fieldValue(name, schema)])
      .filter(([, value]) => value !== undefined),
  );

/** @returns undefined for the default */
function fieldValue(name, schema) {
  const input = $(`p-${name}`);
  const { control, number } = controlOf(schema);
  if (control === "check") return input.checked === schema.default ? undefined : input.checked;
  const text = input.value.trim();
  if (text === "" || text === String(schema.default)) return undefined;
  if (control === "json") return parsed(text);
  return number && !Number.isNaN(Number(text)) ? Number(text) : text;
}

/** JSON, or the text itself if it is none: the service refuses it with a reason. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// --- the slider: the share of future models that must say yes or, without them, the first knob of the method ---

const FACTORS = [0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];

/** Shares of the future models, from the lowest cost to the most robust. */
const SHARES = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1];

/** The share that an answer is asked for at first. */
export const STANDARD_SHARE = 0.9;

/** Measures of robustness on the curve. */
const MEASURES = { shift: "worst-case bound under shift", noise: "share accepted under noise" };

/** What can be varied, the knob of the slider first. */
const knobs = () => [...(readyFutures() ? [FUTURE_VALIDITY] : []), ...chosenMethod().knobs];

/** Values of a knob around its default, from the lowest cost to the most robust. */
export function knobValues(knob) {
  if (knob === FUTURE_VALIDITY) return SHARES;
  const method = chosenMethod();
  const schema = method.parameters.properties[knob];
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = controlOf(schema).number;
  const standard = typeof schema.default === "number" && schema.default > 0 ? schema.default : 0.3;
  // What is not there limits nothing, as a comparison with it is false.
  const allowed = (v) => !(v < minimum || v > maximum || v <= exclusiveMinimum || v >= exclusiveMaximum);
  const values = FACTORS.map((factor) => Number((standard * factor).toPrecision(2))).filter(allowed);
  return method.robust_when[knob] === "larger" ? values : values.reverse();
}

/** The value of a knob on the page now. */
export const knobValue = (knob) => (knob === FUTURE_VALIDITY ? state.share : Number($(`p-${knob}`).value));

/** Offer the slider, and the curve's knobs and measures; hide the slider where there is no knob. */
export function offerKnobs() {
  const all = knobs();
  const measures = {
    ...(readyFutures() && { future: `share of ${futureNoun()} that say yes if applicants stay as they are` }),
    ...MEASURES,
  };
  fill("knob", ...all.map((knob) => h("option", { value: knob }, knobName(knob))));
  const measure = $("against").value;
  fill("against", ...Object.entries(measures).map(([value, text]) => h("option", { value }, text)));
  // The curve on the page is drawn by it.
  if (measure in measures) $("against").value = measure;
  $("slider-panel").hidden = all.length === 0;
  // Nothing can be varied, so there is no curve.
  if (all.length === 0) $("frontier").hidden = true;
  if (all.length > 0) followParameter(all[0]);
}

export const knobName = (knob) => (knob === FUTURE_VALIDITY ? `Share of ${futureNoun()}` : readable(knob));

/** Let the slider show the value of its knob. @param name of the knob that has changed */
function followParameter(name) {
  const [knob] = knobs();
  if (name !== knob) return;
  const values = knobValues(knob);
  const value = knobValue(knob);
  const distances = values.map((v) => Math.abs(v - value));
  $("slider").max = values.length - 1;
  $("slider").value = distances.indexOf(Math.min(...distances));
  describe(knob, value);
}

/** Let the knob take the value of the slider. */
export function followSlider() {
  const [knob] = knobs();
  const value = knobValues(knob)[Number($("slider").value)];
  if (knob === FUTURE_VALIDITY) state.share = value;
  else $(`p-${knob}`).value = value;
  describe(knob, value);
}

/** Let the knob take the number that was typed; one that is wrong is left to be corrected. */
export function followTyped() {
  const [knob] = knobs();
  if (!checkTyped($("slider-value"))) return;
  const { value } = $("slider-value");
  if (value !== "" && knob !== FUTURE_VALIDITY) $(`p-${knob}`).value = knobValues(knob)[Number(value) - 1];
  if (value !== "" && knob === FUTURE_VALIDITY) state.share = Number(value) / 100;
  followParameter(knob);
}

/** Show the setting as a number that can be typed: the share, or the step where there is none. */
function describe(knob, value) {
  const share = knob === FUTURE_VALIDITY;
  const [step, steps] = [Number($("slider").value) + 1, Number($("slider").max) + 1];
  const position = `Step ${step} of ${steps}`;
  const typed = share
    ? { min: 1, max: 100, step: "any", value: Number((100 * value).toFixed(4)) }
    : { min: 1, max: steps, step: "1", value: step };
  Object.assign($("slider-value"), typed);
  checkTyped($("slider-value"));
  $("slider-value").setAttribute("aria-label", share ? "How sure, of 100 retrained models" : `Step, of ${steps}`);
  $("slider-unit").textContent = share ? "in 100" : `of ${steps}`;
  const future = knob === FUTURE_VALIDITY && `at least ${inHundred(value)} ${futureNoun()}`;
  $("slider").setAttribute("aria-valuetext", future || position);
  $("slider-hint").textContent = future
    ? `A yes now and, if applicants stay as they are, from ${future} like it. Surer usually takes more effort.`
    : `${position}. A higher step is surer and usually takes more effort. Nothing is known about the lender’s next model.`;
}

// --- the method and its parameters ---

const GROUPS = { counterfactual: "Each way by itself", plan: "All ways together, as a plan" };

/** Ways that an answer is asked for at first, and at most, where the method finds each by itself. */
const [STANDARD_WAYS, MOST_WAYS] = [3, 4];

/** Members of a plan that a request may ask for. */
const MOST_MEMBERS = 10;

/** The parameter of a plan that says how many members it has. */
const MEMBERS = "count";

/** Offer the methods: those with one counterfactual, and those with a plan. */
export function offerMethods() {
  const options = (yields) =>
    state.methods.filter((m) => m.yields === yields).map((m) => h("option", { value: m.name }, readable(m.name)));
  const groups = Object.entries(GROUPS).map(([yields, label]) => h("optgroup", { label }, ...options(yields)));
  fill("method", ...groups.filter((group) => group.childElementCount > 0));
}

/** Offer the parameters of the chosen method, its knobs first. */
export function offerParameters(onChange) {
  const { summary, reference, knobs } = chosenMethod();
  const properties = parameterSchemas();
  const names = [...knobs, ...Object.keys(properties).filter((name) => !knobs.includes(name))];
  const field = (name) => schemaField(name, properties[name], () => (followParameter(name), onChange()));
  fill("method-about", summary, h("br"), `Source: ${reference}`);
  fill("parameters", ...names.map(field));
  offerWays();
  offerKnobs();
}

/** @returns a JSON Schema for each parameter of the chosen method, apart from the number of ways */
function parameterSchemas() {
  const { name, [MEMBERS]: members, ...properties } = chosenMethod().parameters.properties;
  return properties;
}

/** Whether the ways of the chosen method belong together. */
export const isPlan = () => chosenMethod().yields === "plan";

/** Ask for as many ways as the chosen method gives by itself. */
function offerWays() {
  const members = isPlan() && chosenMethod().parameters.properties[MEMBERS];
  const min = members ? members.minimum : 1;
  const max = members ? Math.min(members.maximum, MOST_MEMBERS) : MOST_WAYS;
  const value = members ? members.default : STANDARD_WAYS;
  Object.assign($("count"), { min, max, value });
  checkTyped($("count"));
  $("count-hint").textContent = isPlan()
    ? `From ${min} to ${max}: this method looks for ways that hold together.`
    : `From ${min} to ${max}, each with other changes.`;
}

/** How many ways are asked for; null for the method's own number. */
export const wayCount = () => ($("count").value === "" ? null : Number($("count").value));

/** The chosen method as `method` of a request. */
export const methodChoice = () => ({ name: $("method").value, ...schemaValues(parameterSchemas()) });
