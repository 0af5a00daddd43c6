// @ts-check
/** Requests that may become jobs: submit them, show their progress, wait for the result. */

import { Problem, fetchJson, send } from "./api.js";
import { h } from "./dom.js";

/** @import { Job } from "./types.d.ts" */

const RECONNECT_MS = 2000;

/** Preference of requests that run in the background. */
export const RESPOND_ASYNC = "respond-async";

/** Deadline of requests that run in the background, in milliseconds. */
const BACKGROUND_DEADLINE = 60000;

/**
 * Send a request that the service may answer with a job.
 * @param {string} path @param {any} body @param {HTMLElement} place where the progress of a job is shown
 * @param {{background?: boolean, signal?: AbortSignal}} options
 * @returns {Promise<any>} the result; null if its job was cancelled
 */
export async function submit(path, body, place, { background = false, signal } = {}) {
  place.replaceChildren();
  const sent = background ? { ...body, deadline_ms: BACKGROUND_DEADLINE } : body;
  const response = await send(path, { body: sent, signal, prefer: background ? RESPOND_ASYNC : undefined });
  const result = await response.json();
  return response.status === 202 ? runJob(result, place, { signal, shown: true }) : result;
}

/**
 * Show the progress of a job until it ends.
 * @param {Job} job @param {HTMLElement} place
 * @param {{signal?: AbortSignal, shown?: boolean, read?: (path: string) => Promise<any>}} [options] the signal aborts the
 *   watching, not the job; `shown` moves the page so that the progress can be seen; `read` reads the result
 * @returns {Promise<any>} its result; null if it was cancelled
 */
export async function runJob(job, place, { signal, shown = false, read = fetchJson } = {}) {
  const watching = new AbortController();
  signal?.addEventListener("abort", () => watching.abort());
  const { element, show } = progressBar(job);
  place.replaceChildren(element);
  if (shown) element.scrollIntoView({ block: "nearest" });
  try {
    const ended = await follow(job, show, watching.signal);
    // A batch without any answer has failed, and its result says why.
    if (ended.status === "failed" && !ended.result) throw new Problem(ended.error);
    if (ended.status === "cancelled") {
      element.replaceWith(h("p.note", { role: "status" }, "Cancelled. Nothing was changed."));
      return null;
    }
    return await read(/** @type {string} */ (ended.result));
  } finally {
    element.remove();
    watching.abort();
  }
}

/** @param {Job} job @returns {{element: HTMLElement, show: (job: Job) => void}} */
function progressBar(job) {
  const bar = h("progress", { "aria-label": "Progress" });
  const status = h("span", { role: "status" });
  const cancel = h("button", { type: "button" }, "Cancel");
  const show = (/** @type {Job} */ now) => {
    const { done, total } = now.progress;
    if (total > 1) Object.assign(bar, { max: total, value: done });
    status.textContent = progressText(now);
  };
  cancel.onclick = async () => {
    cancel.disabled = true;
    await send(`jobs/${job.id}`, { method: "DELETE" }).catch((problem) => (status.textContent = problem.message));
  };
  show(job);
  return { element: h("div.job", {}, bar, status, cancel), show };
}

/** How far a job is, in words. @param {Job} job */
export function progressText({ status, progress: { done, total } }) {
  if (status === "queued") return "Waiting in the queue.";
  if (status === "running") return total > 1 ? `Working: ${done} of ${total} done.` : "Working.";
  return "";
}

/**
 * Follow a job by server-sent events. They are read with fetch, because EventSource cannot send a key.
 * @param {Job} job @param {(job: Job) => void} onChange @param {AbortSignal} signal
 * @returns {Promise<Job>} the ended job
 */
async function follow(job, onChange, signal) {
  let last = "";
  for (;;) {
    const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
    const response = await send(`jobs/${job.id}/events`, { signal, headers });
    for await (const event of events(response)) {
      last = event.id;
      onChange((job = JSON.parse(event.data)));
      if (event.event !== "progress") return job;
    }
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}

/** The events of a stream. @param {Response} response @returns {AsyncGenerator<Record<string, string>>} */
async function* events(response) {
  const reader = /** @type {ReadableStream<any>} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).replaceAll("\r\n", "\n").split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const lines = block.split("\n").map((line) => /^(\w+): ?(.*)$/.exec(line));
      const event = Object.fromEntries(lines.filter((line) => line !== null).map((line) => [line[1], line[2]]));
      if (event.data) yield event;
    }
  }
}
