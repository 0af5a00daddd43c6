// @ts-check
/** The method and its parameters. */

import { $, fill, h } from "./dom.js";
import { readable } from "./format.js";
import { schemaField, schemaValues } from "./schema_form.js";
import { followParameter, offerKnobs } from "./slider.js";
import { chosenMethod, state } from "./state.js";

const GROUPS = { counterfactual: "One way to a yes", plan: "Several ways side by side" };

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
  offerKnobs();
}

/** @returns {Record<string, any>} a JSON Schema for each parameter of the chosen method */
function parameterSchemas() {
  const { name, ...properties } = chosenMethod().parameters.properties;
  return properties;
}

/** The chosen method as `method` of a request. */
export const methodChoice = () => ({ name: $("method").value, ...schemaValues(parameterSchemas()) });
