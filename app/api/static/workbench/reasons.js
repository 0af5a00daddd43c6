// @ts-check
/** Why the model says no: what lowered the score most, whether or not the person can change it. */

import { h } from "./dom.js";
import { formatShort, formatValue } from "./format.js";
import { featureNamed } from "./state.js";

/** @param {any} reasons of an answer; null where they were not asked for */
export const reasonsPart = (reasons) =>
  reasons &&
  h(
    "section.reasons",
    { "aria-labelledby": "reasons-title" },
    h("h3", { id: "reasons-title" }, "Why the model says no"),
    reasons.detail && h("p.hint", {}, reasons.detail),
    reasons.reasons.length > 0 && h("ol", {}, ...reasons.reasons.map(reasonItem)),
    reasons.against &&
      h("p.hint", {}, `Shares of all that counts against the applicant, compared with ${reasons.against.text}.`),
  );

/** @param {any} reason */
function reasonItem({ feature: name, code, text, value, reference, share, contribution }) {
  const feature = featureNamed(name);
  const style = { "--share": `${100 * share}%` };
  // A value may be usual and lower the score all the same.
  const usual = value === reference ? "" : `usual: ${feature && formatValue(feature, reference)}`;
  const own = feature && formatValue(feature, value);
  return h(
    "li",
    {},
    h("b", {}, text),
    feature && h("p.hint", {}, [!text.endsWith(`: ${own}`) && own, usual].filter(Boolean).join("; ")),
    h(
      "p.part-of",
      { title: specialists(code, contribution) },
      h("span.share.poor", { "aria-hidden": "true", style }, h("i")),
      `${Math.round(100 * share)}%`,
      h("span.unseen", {}, " of what counts against the applicant"),
    ),
  );
}

/** @param {string | null} code @param {number | null} contribution to the score; null where the key may not read it */
const specialists = (code, contribution) =>
  [code && `Code ${code}`, contribution !== null && `${formatShort(contribution)} of the score`]
    .filter(Boolean)
    .join("; ");
