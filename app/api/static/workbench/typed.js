// @ts-check
/** Typed numbers beside the applicant's: what is wrong with one is said beneath its field, and nothing is sent. */

import { h } from "./dom.js";
import { formatNumber } from "./format.js";

/** @param {any} input @returns {string} empty if nothing is wrong */
function faultOf({ validity, min, max, step }) {
  if (validity.badInput) return "Type a number.";
  if (validity.valueMissing || validity.rangeUnderflow || validity.rangeOverflow) return `Type a number ${rangeText(min, max)}.`;
  return validity.stepMismatch && step === "1" ? "Type a whole number." : "";
}

/** @param {string} min @param {string} max */
function rangeText(min, max) {
  if (max === "") return `that is at least ${formatNumber(Number(min))}`;
  if (min === "") return `that is at most ${formatNumber(Number(max))}`;
  return `from ${formatNumber(Number(min))} to ${formatNumber(Number(max))}`;
}

/** Show what is wrong with a typed number, or that nothing is. @param {any} input @returns {boolean} whether it is right */
export function checkTyped(input) {
  const fault = faultOf(input);
  const place = input.closest(".field, .typed, .chip") ?? input.parentElement;
  const shown = place.querySelector(":scope > .fault");
  if (fault === "") shown?.remove();
  else if (shown) shown.textContent = fault;
  else place.append(h("span.fault.hint", { role: "alert" }, fault));
  input.setAttribute("aria-invalid", String(fault !== ""));
  return fault === "";
}

/** The typed numbers with a fault, apart from the applicant's. @returns {any[]} */
export const faultyTyped = () =>
  [...document.querySelectorAll("#view-one [type=number][aria-invalid=true]")].filter(
    (input) => !input.closest("#fields"),
  );

/** Check every number as it is typed. */
export function watchTyped() {
  addEventListener(
    "input",
    ({ target }) => {
      const input = /** @type {any} */ (target);
      if (input.type === "number" && !input.closest("#fields")) checkTyped(input);
    },
    { capture: true },
  );
}
