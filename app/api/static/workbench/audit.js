// @ts-check
/** The audit: every promise of a model, verified against another version of it. */

import { fetchJson } from "./api.js";
import { versionText } from "./case.js";
import { $, fill, h } from "./dom.js";
import { counted, inHundred, lowerBound, readable } from "./format.js";
import { RESPOND_ASYNC, runJob } from "./jobs.js";
import { problemNote } from "./problem.js";
import { chosenModel, fullName, state } from "./state.js";

/** @import { Model } from "./types.d.ts" */

/** Offer every version of the chosen model; the newest one is chosen. */
export function offerVersions() {
  const versions = state.models.filter((m) => m.id === chosenModel().id);
  fill("candidate", ...versions.map((m) => h("option", { value: fullName(m) }, readable(versionText(m)))));
  $("candidate").value = fullName(/** @type {Model} */ (versions.at(-1)));
  fill("audited");
}

/** Verify all promises against the chosen version. */
export async function audit() {
  const version = $("candidate").value;
  const path = `models/${encodeURIComponent(version.split("@")[0])}/audits`;
  const button = $("audit").querySelector("button");
  button.disabled = true;
  try {
    const job = await fetchJson(path, { body: { model: version }, prefer: RESPOND_ASYNC });
    const result = await runJob(job, $("audit-job"), { shown: true });
    if (result) fill("audited", ...auditParts(result));
  } catch (problem) {
    fill("audited", problemNote(problem));
  } finally {
    button.disabled = false;
  }
}

/** Kept and broken promises as a bar, in numbers, and one by one. @param {any} result */
function auditParts({ promises, still_valid: kept, broken, promised_lower: lower, broken_promises: list }) {
  if (promises === 0) return [h("p.note", {}, "There are no promises to verify: store an answer first.")];
  const share = kept / promises;
  return [
    h("div.share.audit.good", { "aria-hidden": "true", style: { "--share": `${100 * share}%` } }, h("i")),
    h(
      "p",
      { role: "status" },
      `Of ${counted(promises, "stored answer")}, `,
      h(kept > 0 ? "b.yes" : "b", {}, `${kept} kept`),
      " and ",
      h(broken > 0 ? "b.no" : "b", {}, `${broken} broken`),
      ` by this version: ${inHundred(share)} kept. An answer is kept if all its ways are.`,
    ),
    list.length > 0 && h("ul", {}, ...list.map(brokenItem)),
    lower !== null &&
      h(
        "details.specialists",
        {},
        h("summary", {}, "For specialists"),
        h("p.hint", {}, `Mean worst-case bound under shift when they were given: ${lowerBound(lower)}.`),
      ),
  ];
}

/** @param {{id: string, reference: string | null, reason: string}} promise */
const brokenItem = ({ id, reference, reason }) =>
  h(
    "li",
    {},
    reference === null ? h("code", {}, id) : h("b", { title: id }, reference),
    reason === "refused" ? ": the model says no" : ": the record no longer fits the model",
  );
