// @ts-check
/** The method and its parameters. */

import { $, fill, h } from "./dom.js";
import { readable } from "./format.js";
import { schemaField, schemaValues } from "./schema_form.js";
import { followParameter, offerKnobs } from "./slider.js";
import { chosenMethod, state } from "./state.js";
import { checkTyped } from "./typed.js";

const GROUPS = { counterfactual: "Each way by itself", plan: "All ways together, as a plan" };

/** Ways that an answer is asked for at first, and at most, where the method finds each by itself. */
const [STANDARD_WAYS, MOST_WAYS] = [3, 4];

/** Members of a plan that a request may ask for. */
const MOST_MEMBERS = 10;

/** The parameter of a plan that says how many members it has. */
const MEMBERS = "count";

/** Offer the methods: those with one counterfactual, and those with a plan. */
export function offerMethods() {
  const options = (/** @type {string} */ yields) =>
    state.methods.filter((m) => m.yields === yields).map((m) => h("option", { value: m.name }, readable(m.name)));
  const groups = Object.entries(GROUPS).map(([yields, label]) => h("optgroup", { label }, ...options(yields)));
  fill("method", ...groups.filter((group) => group.childElementCount > 0));
}

/** Offer the parameters of the chosen method, its knobs first. @param {() => void} onChange */
export function offerParameters(onChange) {
  const { summary, reference, knobs } = chosenMethod();
  const properties = parameterSchemas();
  const names = [...knobs, ...Object.keys(properties).filter((name) => !knobs.includes(name))];
  const field = (/** @type {string} */ name) =>
    schemaField(name, properties[name], () => (followParameter(name), onChange()));
  fill("method-about", summary, h("br"), `Source: ${reference}`);
  fill("parameters", ...names.map(field));
  offerWays();
  offerKnobs();
}

/** @returns {Record<string, any>} a JSON Schema for each parameter of the chosen method, apart from the number of ways */
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

/** How many ways are asked for; null for the method's own number. @returns {number | null} */
export const wayCount = () => ($("count").value === "" ? null : Number($("count").value));

/** The chosen method as `method` of a request. */
export const methodChoice = () => ({ name: $("method").value, ...schemaValues(parameterSchemas()) });
