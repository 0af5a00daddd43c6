/** Reports on everybody whom the model refuses: list them, start one, open its page. */

import { fetchJson, openPage, send } from "./api.js";
import { $, download, fill, h } from "./dom.js";
import { guarded, isOpen, jobItem, problemNote, runJob, workButton } from "./jobs.js";
import { chosenModel, fullName, state } from "./state.js";

/** @param name such as `loan@2` */
const titleOf = (name) => state.models.find((model) => fullName(model) === name)?.title ?? name;

const address = (model) => `models/${encodeURIComponent(model)}/reports`;

export async function listReports() {
  try {
    const { reports } = await fetchJson(address(chosenModel().id));
    fill("reports", reports.length > 0 ? h("ul.cases", ...reports.map(item)) : h("p.hint", "No reports yet."));
  } catch (problem) {
    fill("reports", problemNote(problem));
  }
}

export const startReport = () =>
  guarded($("report"), $("report-job"), async () =>
    watch(await fetchJson(address(fullName(chosenModel())), { body: {} })),
  );

async function watch(job) {
  listReports();
  await runJob(job, $("report-job"), { shown: true }).finally(listReports);
}

function item(job) {
  const act = (words, work) =>
    workButton(words, $("report-job"), work, { class: "small", "aria-label": `${words}: report ${job.id}` });
  const path = `reports/${job.id}?format=`;
  const name = `report ${job.id}`;
  return jobItem(
    job,
    [h("b", titleOf(job.model)), `, version ${job.model.split("@")[1]}`],
    isOpen(job) && act("Watch", () => watch(job)),
    job.result && act("Open", () => openPage(`${path}html`, `${name}.html`)),
    job.result && act("Take as JSON", async () => download(await (await send(`${path}json`)).blob(), `${name}.json`)),
  );
}
