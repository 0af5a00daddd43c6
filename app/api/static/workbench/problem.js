// @ts-check
/** A problem document as a note on the page. */

import { Problem } from "./api.js";
import { h } from "./dom.js";
import { readable } from "./format.js";

/** @param {any} problem @throws everything that is not a problem document */
export function problemNote(problem) {
  if (!(problem instanceof Problem)) throw problem;
  const { detail, title, errors = [], request_id: id } = problem.document;
  return h(
    "div.note.bad",
    { role: "alert" },
    h("p", {}, h("b", {}, title), ". ", detail && detail !== title ? detail : null),
    errors.length > 0 && h("ul", {}, ...errors.map(errorItem)),
    id && h("p.hint", {}, "Request ID for the operator: ", h("code", {}, id)),
  );
}

/** @param {{pointer: string, detail: string}} error */
function errorItem({ pointer, detail }) {
  const field = pointer.split("/").slice(-1)[0] || "request";
  return h("li", {}, `${readable(field)} ${detail}`);
}
