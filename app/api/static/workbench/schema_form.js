// @ts-check
/** Fields of a form that is described by JSON Schema, such as a method's parameters. */

import { $, h, prose } from "./dom.js";
import { formatNumber, readable } from "./format.js";

/** The control for a value, from its JSON Schema. @param {any} schema */
export function controlOf(schema) {
  const choices = schema.anyOf ?? [schema];
  const number = choices.find((/** @type {any} */ c) => c.type === "number" || c.type === "integer");
  const words = choices.flatMap((/** @type {any} */ c) => c.enum ?? []);
  if (schema.type === "boolean") return { control: "check" };
  if (number && words.length === 0)
    return { control: "number", number, optional: choices.some((/** @type {any} */ c) => c.type === "null") };
  if (words.length > 0) return { control: number ? "text" : "select", number, words };
  return { control: schema.type === "string" ? "text" : "json" };
}

/** @param {any} number a JSON Schema @returns {string} its limits in words */
function limitsText({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }) {
  const low = minimum ?? exclusiveMinimum;
  const high = maximum ?? exclusiveMaximum;
  const parts = [
    low !== undefined && `${exclusiveMinimum === undefined ? "from" : "above"} ${formatNumber(low)}`,
    high !== undefined && `${exclusiveMaximum === undefined ? "to" : "below"} ${formatNumber(high)}`,
  ];
  return parts.filter(Boolean).join(" ");
}

/** @param {string} name @param {any} schema @param {() => void} onChange */
export function schemaField(name, schema, onChange) {
  const id = `p-${name}`;
  const hint = h("p.hint", { id: `${id}-hint` }, ...prose(schema.description ?? ""), defaultHint(schema));
  const common = { id, "aria-describedby": `${id}-hint`, oninput: onChange };
  if (controlOf(schema).control === "check") {
    const input = h("input", { ...common, type: "checkbox", checked: schema.default === true });
    return h("div.field", {}, h("label.check", {}, input, ` ${readable(name)}`), hint);
  }
  return h("div.field", {}, h("label", { for: id }, readable(name)), input(schema, common), hint);
}

/** The limits and the default of a value. @param {any} schema */
function defaultHint(schema) {
  const { control, number, words = [], optional } = controlOf(schema);
  const standard = optional && schema.default === null ? "empty: automatic" : number && `default ${schema.default}`;
  const parts = [number && limitsText(number), control === "text" && words.join(", "), standard].filter(Boolean);
  return parts.length > 0 && h("span.limits", {}, ` (${parts.join("; ")})`);
}

/** @param {any} schema @param {Record<string, any>} common attributes of every control */
function input(schema, common) {
  const { control, number, words = [] } = controlOf(schema);
  const value = schema.default ?? "";
  if (control === "number") {
    const step = number.type === "integer" ? 1 : "any";
    return h("input", { ...common, type: "number", step, min: number.minimum, max: number.maximum, value });
  }
  if (control === "select") {
    const options = words.map((/** @type {string} */ word) => h("option", { selected: word === value }, word));
    return h("select", common, ...options);
  }
  if (control === "text") return h("input", { ...common, value, autocomplete: "off" });
  return h("textarea", { ...common, rows: 2, placeholder: "JSON, or empty" });
}

/**
 * The values of a form that differ from their defaults.
 * @param {Record<string, any>} properties of a JSON Schema
 * @returns {Record<string, any>}
 */
export const schemaValues = (properties) =>
  Object.fromEntries(
    Object.entries(properties)
      .map(([name, schema]) => [name, fieldValue(name, schema)])
      .filter(([, value]) => value !== undefined),
  );

/** @param {string} name @param {any} schema @returns {any} undefined for the default */
function fieldValue(name, schema) {
  const input = $(`p-${name}`);
  const { control, number } = controlOf(schema);
  if (control === "check") return input.checked === schema.default ? undefined : input.checked;
  const text = input.value.trim();
  if (text === "" || text === String(schema.default)) return undefined;
  if (control === "json") return parsed(text);
  return number && !Number.isNaN(Number(text)) ? Number(text) : text;
}

/** JSON, or the text itself if it is none: the service refuses it with a reason. @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
