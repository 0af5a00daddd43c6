// @ts-check
/** A problem document as a note on the page; what is wrong with a field leads to the field. */

import { Problem } from "./api.js";
import { $, h, prose } from "./dom.js";
import { readable } from "./format.js";
import { featureNamed, state } from "./state.js";

/** @param {any} problem @throws everything that is not a problem document */
export function problemNote(problem) {
  if (!(problem instanceof Problem)) throw problem;
  const { detail, title, errors = [], request_id: id } = problem.document;
  return h(
    "div.note.bad",
    { role: "alert" },
    h("p", {}, h("b", {}, title), ". ", ...(detail && detail !== title ? prose(detail) : [])),
    errors.length > 0 && h("ul", {}, ...errors.map(errorItem)),
    id && h("p.hint", {}, "Request ID for the operator: ", h("code", {}, id)),
  );
}

/** Fields of the page, by the part of the request that they fill. */
const FIELDS = /** @type {Record<string, string>} */ ({
  count: "count",
  horizon_months: "months",
  "constraints/max_changes": "most",
  "robustness/future_validity": "slider-value",
});

/** What precedes the name of a feature or parameter in the id of its field, by the part of the request. */
const PREFIXES = /** @type {Record<string, string>} */ ({
  applicant: "f-",
  method: "p-",
  "constraints/max_change": "largest-",
  "constraints/least_change": "least-",
  "constraints/bounds": "typed-min-",
});

/** The field that a pointer is about; null where the page has none. @param {string} pointer */
function fieldOf(pointer) {
  const path = pointer.replace(/^\//, "");
  if (FIELDS[path]) return $(FIELDS[path]);
  const part = Object.keys(PREFIXES).find((prefix) => path.startsWith(`${prefix}/`));
  return part ? $(PREFIXES[part] + path.slice(part.length + 1).split("/")[0]) : null;
}

/** Kinds of wishes, by the part of the request that holds them. */
const WISHES = /** @type {Record<string, string>} */ ({
  must_include: "must",
  "exclude/changes": "change",
  "exclude/features": "feature",
});

/** The feature of the wish that a pointer is about. @param {string} pointer */
function wishedFeature(pointer) {
  const [, part, place] = /^\/(must_include|exclude\/\w+)\/(\d+)/.exec(pointer) ?? [];
  const wish = state.wishes.filter(({ kind }) => kind === WISHES[part])[Number(place)];
  return wish && featureNamed(wish.feature);
}

/** @param {{pointer: string, detail: string}} error */
function errorItem({ pointer, detail }) {
  const wished = wishedFeature(pointer);
  if (wished) {
    // The label takes the place of the name that the service knows.
    const rest = detail.replace(` of "${wished.name}"`, "").replace(`"${wished.name}" `, "");
    return h("li", {}, `“${wished.label}” ${rest}`);
  }
  const name = readable(pointer.split("/").slice(-1)[0] || "request");
  const field = fieldOf(pointer);
  const label = field?.labels?.[0]?.textContent || name;
  const show = () => {
    const folded = field.closest("details");
    if (folded) folded.open = true;
    field.setAttribute("aria-invalid", "true");
    field.focus();
  };
  return h("li", {}, field ? h("button.link", { type: "button", onclick: show }, label) : name, ` ${detail}`);
}
