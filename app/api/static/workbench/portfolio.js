// @ts-check
/** Reports on everybody whom the model refuses: list them, start one, open its page. */

import { fetchJson, send } from "./api.js";
import { $, download, fill, h } from "./dom.js";
import { formatTime, readable } from "./format.js";
import { progressText, runJob } from "./jobs.js";
import { storedKey } from "./key.js";
import { problemNote } from "./problem.js";
import { chosenModel, fullName } from "./state.js";

/** @import { Job } from "./types.d.ts" */

/** @param {() => Promise<any>} work */
const guarded = (work) => work().catch((problem) => fill("report-job", problemNote(problem)));

/** @param {string} model */
const address = (model) => `models/${encodeURIComponent(model)}/reports`;

/** Show the newest reports on the chosen model. */
export const listReports = () =>
  guarded(async () => {
    const { reports } = await fetchJson(address(chosenModel().id));
    fill("reports", h(reports.length > 0 ? "ul.cases" : "p.hint", {}, ...(reports.length > 0 ? reports.map(item) : ["No reports yet."])));
  });

/** Report on the reference records of the chosen version. */
export async function startReport() {
  $("report").disabled = true;
  await guarded(async () => watch(await fetchJson(address(fullName(chosenModel())), { body: {} })));
  $("report").disabled = false;
}

/** @param {Job} job */
async function watch(job) {
  listReports();
  await runJob(job, $("report-job"), { shown: true }).finally(listReports);
}

/** @param {Job} job */
function item(job) {
  const { id, model, status, error, created_at: created } = job;
  const open = ["queued", "running"].includes(status);
  const button = (/** @type {string} */ words, /** @type {() => Promise<any>} */ work) =>
    h("button.small", { type: "button", "aria-label": `${words}: report ${id}`, onclick: () => guarded(work) }, words);
  return h(
    "li.job-item",
    {},
    h("b", {}, model),
    h("span.hint", {}, `${open ? progressText(job) : (error?.title ?? readable(status))} · ${formatTime(created)}`),
    open && button("Watch", () => watch(job)),
    job.result && button("Open", () => take(id, "html")),
    job.result && button("JSON", () => take(id, "json")),
  );
}

/** Open the page of a report, or keep its file: where there is a key, a new tab would not send it. @param {string} id @param {string} form */
async function take(id, form) {
  const path = `reports/${id}?format=${form}`;
  if (form === "html" && !storedKey()) open(path, "_blank", "noopener");
  else download(await (await send(path)).blob(), `report ${id}.${form}`);
}
