// @ts-check
/** What is known about several ways together. */

import { fetchJson } from "./api.js";
import { estimateText } from "./certificate.js";
import { $, h } from "./dom.js";
import { lowerBound, upperBound } from "./format.js";
import { futureSource } from "./future.js";
import { runJob } from "./jobs.js";
import { problemNote } from "./problem.js";

/** @param {any} plan @param {any[]} members */
export function planBounds({ validity: { future, ...bounds } }, members) {
  return h(
    "div.note",
    { id: "together" },
    h("p", {}, h("b", {}, "All ways together")),
    future && futurePart(future),
    h("details.specialists", {}, h("summary", {}, "For specialists"), boundPart(bounds, members)),
    h("div", { id: "bounds-job" }),
  );
}

/** @param {{lower: number, upper: number, exact: boolean, status: string}} bounds @param {any[]} members */
function boundPart({ lower, upper, exact, status }, members) {
  const { shift } = members[0].validity;
  const estimate = shift ? estimateText(shift) : "estimated";
  const text = `Worst-case bound under shift for all ${members.length} at once (${estimate}): ${lowerBound(lower)}`;
  const better = status === "complete" ? "" : ` The exact bound is at most ${upperBound(upper)}.`;
  return h("p", {}, `${text}.${exact ? " This bound is exact." : better}`);
}

/** @param {any} future of a plan */
function futurePart(future) {
  return h("p", {}, future.promise, h("small.hint", {}, ` ${futureSource(future)}`));
}

/** Show the exact bound of the plan on the page once its job has computed it. @param {string} job address of the job */
export async function followBounds(job) {
  // Another answer may be on the page by then.
  const shown = $("together");
  const place = $("bounds-job");
  try {
    const result = await runJob(await fetchJson(job), place);
    if (result?.plan && shown.isConnected) shown.replaceWith(planBounds(result.plan, result.counterfactuals));
  } catch (problem) {
    place.replaceChildren(problemNote(problem));
  }
}
