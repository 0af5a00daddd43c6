/** Problems as notes on the page, and requests that become jobs: submitted, watched, and read once they have ended. */

import { Problem, fetchJson, isAborted, send } from "./api.js";
import { $, button, h, prose } from "./dom.js";
import { formatTime, readable } from "./format.js";
import { featureNamed, state } from "./state.js";

/** @throws everything that is not a problem document */
export function problemNote(problem) {
  if (!(problem instanceof Problem)) throw problem;
  const { detail, title, errors = [], request_id: id } = problem.document;
  return h(
    "div.note.bad",
    { role: "alert" },
    h("p", h("b", title), ". ", ...(detail && detail !== title ? prose(detail) : [])),
    errors.length > 0 && h("ul", ...errors.map(errorItem)),
    id && h("p.hint", "Request ID for the operator: ", h("code", id)),
  );
}

/** Work that a button starts, once at a time; what goes wrong is said in `place`. */
export async function guarded(pressed, place, work) {
  pressed.disabled = true;
  try {
    await work();
  } catch (problem) {
    if (!isAborted(problem)) place.replaceChildren(problemNote(problem));
  } finally {
    pressed.disabled = false;
  }
}

/** A button for such work. */
export function workButton(words, place, work, attributes) {
  const pressed = button(words, () => guarded(pressed, place, work), attributes);
  return pressed;
}

/** Fields of the page, by the part of the request that they fill. */
const FIELDS = {
  count: "count",
  horizon_months: "months",
  "constraints/max_changes": "most",
  "robustness/future_validity": "slider-value",
};

/** What precedes the name of a feature or parameter in the id of its field, by the part of the request. */
const PREFIXES = {
  applicant: "f-",
  method: "p-",
  "constraints/max_change": "largest-",
  "constraints/least_change": "least-",
  "constraints/bounds": "typed-min-",
};

/** The field that a pointer is about; null where the page has none. */
function fieldOf(pointer) {
  const path = pointer.replace(/^\//, "");
  if (FIELDS[path]) return $(FIELDS[path]);
  const part = Object.keys(PREFIXES).find((prefix) => path.startsWith(`${prefix}/`));
  return part ? $(PREFIXES[part] + path.slice(part.length + 1).split("/")[0]) : null;
}

/** Kinds of wishes, by the part of the request that holds them. */
const WISHES = {
  must_include: "must",
  "exclude/changes": "change",
  "exclude/features": "feature",
};

/** The feature of the wish that a pointer is about. */
function wishedFeature(pointer) {
  const [, part, place] = /^\/(must_include|exclude\/\w+)\/(\d+)/.exec(pointer) ?? [];
  const wish = state.wishes.filter(({ kind }) => kind === WISHES[part])[Number(place)];
  return wish && featureNamed(wish.feature);
}

function errorItem({ pointer, detail }) {
  const wished = wishedFeature(pointer);
  if (wished) {
    // The label takes the place of the name that the service knows.
    const rest = detail.replace(` of "${wished.name}"`, "").replace(`"${wished.name}" `, "");
    return h("li", `“${wished.label}” ${rest}`);
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
  return h("li", field ? button(label, show, { class: "link" }) : name, ` ${detail}`);
}

const RECONNECT_MS = 2000;

/** Preference of requests that run in the background. */
export const RESPOND_ASYNC = "respond-async";

/** Deadline of requests that run in the background, in milliseconds. */
const BACKGROUND_DEADLINE = 60000;

/**
 * Send a request that the service may answer with a job.
 * @param place where the progress of a job is shown
 * @returns the result; null if its job was cancelled
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
 * @param options the signal aborts the watching, not the job; `shown` moves the page so that the progress can be seen;
 * `read` reads the result
 * @returns its result; null if it was cancelled
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
    return await read(ended.result);
  } finally {
    element.remove();
    watching.abort();
  }
}

function progressBar(job) {
  const bar = h("progress", { "aria-label": "Progress" });
  const status = h("span", { role: "status" });
  const cancel = button("Cancel", () => {
    cancel.disabled = true;
    send(`jobs/${job.id}`, { method: "DELETE" }).catch((problem) => (status.textContent = problem.message));
  });
  const show = (now) => {
    const { done, total } = now.progress;
    if (total > 1) Object.assign(bar, { max: total, value: done });
    status.textContent = progressText(now);
  };
  show(job);
  return { element: h("div.job", bar, status, cancel), show };
}

export const isOpen = ({ status }) => status === "queued" || status === "running";

/** A job in a list, with buttons. */
export const jobItem = (job, title, ...buttons) =>
  h(
    "li.job-item",
    h("span", ...[title].flat()),
    h("span.hint", `${statusText(job)} · ${formatTime(job.created_at)}`),
    ...buttons,
  );

function statusText(job) {
  if (isOpen(job)) return progressText(job);
  if (job.status === "failed") return ["Failed", job.error?.title].filter(Boolean).join(": ");
  return job.status === "succeeded" ? "Done" : "Cancelled";
}

function progressText({ status, progress: { done, total } }) {
  if (status === "queued") return "Waiting in the queue.";
  if (status === "running") return total > 1 ? `Working: ${done} of ${total} done.` : "Working.";
  return "";
}

/**
 * Follow a job by server-sent events. They are read with fetch, because EventSource cannot send a key.
 * @returns the ended job
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

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
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
