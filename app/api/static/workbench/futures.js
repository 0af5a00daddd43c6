/** The future models of the chosen model: what is known about them, and the job that trains them. */

import { fetchJson } from "./api.js";
import { $, fill, h } from "./dom.js";
import { formatDate, inHundred } from "./format.js";
import { problemNote, runJob } from "./jobs.js";
import { chosenModel, fullName, futureNoun, state, stressName } from "./state.js";

const POLL_MS = 5000;

/** Keys without this scope cannot train future models. */
const DENIED = "insufficient-scope";

let denied = false;
let watching = new AbortController();

export async function refreshModel(name) {
  const model = await fetchJson(`models/${encodeURIComponent(name)}`);
  const i = state.models.findIndex((known) => fullName(known) === name);
  if (i >= 0) state.models[i] = model;
}

/** Show the future models of the chosen model. @param onChange called when they are trained */
export function showFutures(onChange) {
  watching.abort();
  watching = new AbortController();
  $("futures-job").replaceChildren();
  const model = chosenModel();
  fill("futures", ...statusParts(model.futures), trainButton(model, onChange));
  if (model.futures.status === "pending") followPending(model, onChange);
}

function statusParts(futures) {
  if (futures.status === "ready") return readyParts(futures);
  if (futures.status === "pending")
    return [h("p", "Future models are being trained. Until then, answers say nothing about the next model.")];
  if (futures.status === "failed")
    return [h("p.note.bad", `Training future models failed: ${(futures.detail ?? "").replace(/\.?$/, ".")}`)];
  return [h("p", "No future models: answers say nothing about the lender’s next model.")];
}

function readyParts(futures) {
  const { source, search, held_back: held, agreement, labels, stress, dropped, advice, created_at: created } = futures;
  const noun = futureNoun(source);
  const total = Number(search) + Number(held);
  const roles = `${search} guide the search for an answer, and ${held} others measure how many still say yes.`;
  const agree = `They agree with this model on ${inHundred(Number(agreement))} records`;
  return [
    h("p", h("b", `${total} ${noun}: `), roles),
    h(
      "p.hint",
      `${ORIGINS[source]}, on ${formatDate(created ?? "")}. ${agree}.`,
      labels === "own_decisions" &&
        " They learned this model’s decisions, not true outcomes, which understates the effect of retraining.",
      stress &&
        stress.length > 0 &&
        ` Others show how far answers hold if ${stress.map(stressName).join(", ")} become more frequent.`,
      Number(dropped) > 0 && ` Dropped as no better than chance: ${dropped}.`,
      advice && ` ${advice}`,
    ),
  ];
}

const ORIGINS = {
  retrained: "Trained as this model was, but from other samples of its records",
  command: "Trained by the lender’s own program from other samples of its records",
  supplied: "Supplied by the operator",
  stand_in: "Of another kind than this model, trained from samples of its records",
};

/** @returns null where it would do nothing */
function trainButton(model, onChange) {
  const { status } = model.futures;
  if (denied || status === "pending") return null;
  const again = status !== "none";
  const attributes = { type: "button", id: "train", onclick: () => train(model, onChange) };
  return h("button.link", attributes, again ? "Train them again" : "Train future models");
}

async function train(model, onChange) {
  const { signal } = watching;
  $("train").disabled = true;
  const path = `models/${encodeURIComponent(fullName(model))}/futures`;
  try {
    await follow(await fetchJson(path, { body: {}, signal }), model, onChange);
  } catch (problem) {
    if (signal.aborted) return;
    denied ||= problem.document?.code === DENIED;
    fill("futures", ...statusParts(model.futures), trainButton(model, onChange));
    fill("futures-job", problemNote(problem));
  }
}

/** Show the progress of a job, then what it made. */
async function follow(job, model, onChange) {
  const { signal } = watching;
  const bar = h("div");
  fill("futures-job", bar, h("p.hint", "Job ", jobLink(job)));
  const failure = await runJob(job, bar, { signal }).then(
    () => null,
    (problem) => problem,
  );
  if (signal.aborted) return;
  await update(model, onChange);
  // What failed without future models from before is in their status.
  if (failure && chosenModel().futures.status === "ready") fill("futures-job", problemNote(failure));
}

/** Look for the job of future models that are being trained. */
async function followPending(model, onChange) {
  const { signal } = watching;
  const { jobs } = await fetchJson("jobs", { signal }).catch(() => ({ jobs: [] }));
  if (signal.aborted) return;
  const open = jobs.filter((job) => job.kind === "futures" && ["queued", "running"].includes(job.status));
  if (open.length === 1) return follow(open[0], model, onChange);
  fill("futures-job", ...open.map((job) => h("p.hint", "Job ", jobLink(job))));
  setTimeout(() => signal.aborted || update(model, onChange), POLL_MS);
}

const jobLink = ({ id }) => h("a", { href: `jobs/${id}` }, id);

/** Show what has become of the future models of a model. */
async function update(model, onChange) {
  const { signal } = watching;
  await refreshModel(fullName(model)).catch(() => {});
  if (signal.aborted) return;
  showFutures(onChange);
  if (chosenModel().futures.created_at !== model.futures.created_at) onChange();
}
