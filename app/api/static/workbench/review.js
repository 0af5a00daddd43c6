// @ts-check
/** Reviews of a stored case: those there were, and a form for the next; data are corrected in the form of the applicant. */

import { fetchJson } from "./api.js";
import { applicant, faultyFeatures } from "./applicant.js";
import { outcome } from "./decision.js";
import { $, h } from "./dom.js";
import { formatTime, formatValue } from "./format.js";
import { problemNote } from "./problem.js";
import { baseFeatures, featureNamed } from "./state.js";

/** @import { Applicant } from "./types.d.ts" */

/** @param {any} file of a case @param {() => Promise<void>} again reads the case anew */
export const reviewsPart = ({ id, reviews, request, answer }, again) =>
  h(
    "section",
    {},
    h("h3", {}, "Reviews"),
    reviews.length === 0
      ? h("p.hint", {}, "Nobody has looked at it again.")
      : h("ul.plain", {}, ...reviews.map(reviewItem)),
    reviewForm(id, () => corrections(answer.model.id, request.applicant), again),
  );

/** @param {any} review */
const reviewItem = ({ recorded_at: at, by, reason, decision, corrections, asked }) =>
  h(
    "li",
    {},
    `${formatTime(at)}, ${by}: `,
    ...(asked === null ? [] : [`corrected ${correctedText(corrections)}; the model says `, again(asked), ". "]),
    decision !== null && h(decision === "accepted" ? "b.yes" : "b.no", {}, `${decision}. `),
    reason,
  );

/** @param {any} asked */
const again = ({ favourable }) => (favourable === null ? "nothing" : outcome(favourable));

/** @param {Applicant} values */
function correctedText(values) {
  const texts = Object.entries(values).map(([name, value]) => {
    const feature = featureNamed(name);
    return feature ? `${feature.label} to ${formatValue(feature, value)}` : name;
  });
  return texts.join(", ");
}

/**
 * What the form of the applicant has other values of than a record; nothing where it is the form of another model.
 * @param {string} model @param {Applicant} record
 * @returns {Applicant}
 */
function corrections(model, record) {
  if ($("model").value.split("@")[0] !== model || faultyFeatures().length > 0) return {};
  const now = applicant();
  const names = baseFeatures().map(({ name }) => name).filter((name) => now[name] !== record[name]);
  return Object.fromEntries(names.map((name) => [name, now[name]]));
}

/** @param {string} id @param {() => Applicant} corrected @param {() => Promise<void>} again */
function reviewForm(id, corrected, again) {
  const by = h("input", { id: "review-by", maxlength: 200, required: true, autocomplete: "name" });
  const reason = h("textarea", { id: "review-reason", rows: 2, maxlength: 5000, required: true });
  const outcomes = { "": "none yet", accepted: "accepted", refused: "refused" };
  const options = Object.entries(outcomes).map(([value, text]) => h("option", { value }, text));
  const decision = h("select", { id: "review-decision" }, ...options);
  const said = h("p.hint", { id: "review-corrected" });
  const place = h("div", { role: "status" });
  const tell = () => {
    const values = corrected();
    const some = Object.keys(values).length > 0;
    said.textContent = some
      ? `To be corrected: ${correctedText(values)}. The model is asked again.`
      : "Is a value wrong? Correct it in the form of One applicant, and come back.";
  };
  const form = h(
    "form",
    { id: "review", onfocusin: tell },
    said,
    h("div.field", {}, h("label", { for: "review-by" }, "Who looks again"), by),
    h("div.field", {}, h("label", { for: "review-reason" }, "Reason"), reason),
    h("div.field", {}, h("label", { for: "review-decision" }, "Decision"), decision),
    h("div.row", {}, h("button", {}, "Record the review")),
    place,
  );
  form.onsubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const body = {
        by: by.value.trim(),
        reason: reason.value.trim(),
        corrections: corrected(),
        decision: decision.value || null,
      };
      await fetchJson(`recourse/${id}/reviews`, { body });
      await again();
    } catch (problem) {
      place.replaceChildren(problemNote(problem));
      button.disabled = false;
    }
  };
  tell();
  return h("details", { ontoggle: tell }, h("summary", {}, "Look at it again"), form);
}
