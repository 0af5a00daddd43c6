// @ts-check
/**
 * The workbench: describe an applicant, ask what would change the model's answer, and see what more certainty costs.
 *
 * Everything on the page comes from the public API: forms from `GET /models/{id}/schema` and `GET /methods`, words about
 * changes from the answers themselves. Texts enter the page as text only, never as markup.
 *
 * @typedef {number | string | boolean} Value
 * @typedef {Record<string, Value>} Applicant
 * @typedef {{name: string, type: string, label: string, unit: string | null, min: number | null, max: number | null,
 *   step: number | null, decimals: number | null, categories: (string | boolean)[] | null, change: string}} Feature
 * @typedef {{id: string, version: string, title: string, description: string | null, active: boolean, output: string,
 *   threshold: number | null}} Model
 * @typedef {{name: string, summary: string, reference: string, yields: string, knobs: string[],
 *   robust_when: Record<string, "larger" | "smaller">, parameters: {properties: Record<string, any>}}} Method
 * @typedef {{id: string, status: string, progress: {done: number, total: number}, error: any, result: string | null}} Job
 */

// --- the page --------------------------------------------------------------------------------------------------------

/** @param {string} id @returns {any} the element that the page has under this id */
const $ = (id) => document.getElementById(id);

/**
 * Make an element.
 * @param {string} tag a tag name, with classes after dots
 * @param {Record<string, any>} attributes attributes; `on…` for listeners, `style` for custom properties
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {any}
 */
function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return dress(
    document.createElement(name),
    { ...attributes, ...(classes.length && { class: classes.join(" ") }) },
    children,
  );
}

/** The same for parts of a drawing. @param {string} name @param {Record<string, any>} attributes @param {...any} children @returns {any} */
function svg(name, attributes, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/** @param {any} element @param {Record<string, any>} attributes @param {any[]} children */
function dress(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, set] of Object.entries(value)) element.style.setProperty(name, set);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

/** Fill a place with what there is to show. @param {string} id @param {...(Node | string | null | undefined | false)} children */
const fillIn = (id, ...children) =>
  $(id).replaceChildren(.../** @type {any[]} */ (children.filter((child) => child != null && child !== false)));

/** Text with `code` between backticks. @param {string} text */
const prose = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

/** @param {Function} work @param {number} ms @returns {() => void} calls `work` once nobody has called it for a while */
function later(work, ms) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, ms);
  };
}

// --- words -----------------------------------------------------------------------------------------------------------

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const day = new Intl.DateTimeFormat("en", { day: "numeric", month: "long", year: "numeric" });

/**
 * A share as people count it.
 * @param {number} share
 * @param {(value: number) => number} round `Math.floor` for what is promised at least
 */
function inHundred(share, round = Math.round) {
  const count = round(share * 100 + (round === Math.floor ? 1e-9 : 0));
  if (count <= 0 && share > 0) return "fewer than 1 in 100";
  if (count >= 100 && share < 1) return "more than 99 in 100";
  return `${count} in 100`;
}

/** @param {Feature} feature @param {Value} value */
function spoken(feature, value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  const text = new Intl.NumberFormat("en", { maximumFractionDigits: feature.decimals ?? 4 }).format(value);
  return feature.unit === "%" ? `${text}%` : feature.unit ? `${text} ${feature.unit}` : text;
}

/** @param {string} text @returns the same as the beginning of a sentence */
const sentence = (text) => (/^\d/.test(text) ? `About ${text}` : text[0].toUpperCase() + text.slice(1));

/** @param {string} name as in the interface @returns as in a sentence */
const humane = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

/** @param {number} count @param {string} noun @param {string} plural */
const counted = (count, noun, plural = `${noun}s`) => `${plain.format(count)} ${count === 1 ? noun : plural}`;

// --- the interface ---------------------------------------------------------------------------------------------------

const ROOT = new URL(".", document.baseURI);
const KEY = "recourse-api-key";
const RECONNECT_MS = 2000;

/** A problem document, or its like where the service could not be reached. */
class Problem extends Error {
  /** @param {any} document */
  constructor(document) {
    super(document.detail || document.title);
    this.document = document;
  }
}

/**
 * Ask the service.
 * @param {string} path
 * @param {{body?: any, method?: string, prefer?: string, signal?: AbortSignal, headers?: Record<string, string>}} options
 * @returns {Promise<Response>}
 */
async function send(path, { body, method, prefer, signal, headers = {} } = {}) {
  const key = sessionStorage.getItem(KEY);
  const response = await fetch(new URL(path.replace(/^\//, ""), ROOT), {
    method: method ?? (body === undefined ? "GET" : "POST"),
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    headers: {
      ...(body !== undefined && { "Content-Type": "application/json" }),
      ...(prefer && { Prefer: prefer }),
      ...(key && { Authorization: `Bearer ${key}` }),
      ...headers,
    },
  }).catch((error) => {
    if (stopped(error)) throw error;
    throw new Problem({
      title: "The service cannot be reached",
      detail: "The service cannot be reached. Is it running?",
    });
  });
  if (response.ok) return response;
  const problem = new Problem(
    await response.json().catch(() => ({ title: `The service answered ${response.status}` })),
  );
  if (response.status === 401 && (await askForKey(problem)))
    return send(path, { body, method, prefer, signal, headers });
  throw problem;
}

/** The same, read as JSON. @param {string} path @param {any} [options] @returns {Promise<any>} */
const ask = async (path, options) => (await send(path, options)).json();

/** @type {Promise<boolean> | null} */
let asking = null;

/** Whether a request ended because a later one took its place. @param {any} error */
const stopped = (error) => error.name === "AbortError";

/** Let the reader enter a key; once, however many requests need one. @param {Problem} problem */
function askForKey(problem) {
  asking ??= new Promise((resolve) => {
    const done = (/** @type {boolean} */ given) => {
      if (given) sessionStorage.setItem(KEY, $("key-value").value.trim());
      $("key-value").value = "";
      $("key").onclose = null;
      $("key").close();
      $("forget").hidden = !given;
      asking = null;
      resolve(given);
    };
    $("key-says").textContent = problem.message;
    $("key-form").onsubmit = (/** @type {Event} */ event) => (event.preventDefault(), done(true));
    $("key-cancel").onclick = () => done(false);
    $("key").onclose = () => done(false);
    $("key").showModal();
  });
  return asking;
}

/**
 * Follow a job to its end by server-sent events; read with fetch, as EventSource cannot send a key.
 * @param {Job} job
 * @param {(job: Job) => void} onChange
 * @param {AbortSignal} signal
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

/**
 * Show a job until it has ended.
 * @param {Job} job
 * @param {HTMLElement} place
 * @param {AbortSignal} [signal] of a reader who has gone on to something else, which may need the place
 * @returns {Promise<any>} its result; null if it was cancelled
 */
async function runJob(job, place, signal) {
  const left = new AbortController();
  signal?.addEventListener("abort", () => left.abort());
  const bar = h("progress", { "aria-label": "Progress" });
  const says = h("span", { role: "status" });
  const cancel = h("button", { type: "button" }, "Cancel");
  const show = (/** @type {Job} */ now) => {
    const { done, total } = now.progress;
    if (total > 1) Object.assign(bar, { max: total, value: done });
    says.textContent =
      { queued: "Waiting for its turn.", running: total > 1 ? `Working: ${done} of ${total} done.` : "Working." }[
        now.status
      ] ?? "";
  };
  cancel.onclick = async () => {
    cancel.disabled = true;
    await send(`jobs/${job.id}`, { method: "DELETE" }).catch((problem) => (says.textContent = problem.message));
  };
  show(job);
  const shown = h("div.job", {}, bar, says, cancel);
  place.replaceChildren(shown);
  try {
    const ended = await follow(job, show, left.signal);
    if (ended.status === "failed") throw new Problem(ended.error);
    if (ended.status === "cancelled") {
      shown.replaceWith(h("p.note", { role: "status" }, "Cancelled. Nothing was changed."));
      return null;
    }
    return await ask(/** @type {string} */ (ended.result));
  } finally {
    shown.remove();
    left.abort();
  }
}

/** What a problem looks like to a reader. @param {any} problem */
function explained(problem) {
  if (!(problem instanceof Problem)) throw problem;
  const { detail, title, errors = [], request_id: id } = problem.document;
  const place = (/** @type {string} */ pointer) => pointer.split("/").slice(-1)[0];
  return h(
    "div.note.bad",
    { role: "alert" },
    h("p", {}, h("b", {}, title), ". ", detail && detail !== title ? detail : null),
    errors.length > 0 &&
      h(
        "ul",
        {},
        ...errors.map((/** @type {any} */ e) => h("li", {}, `${humane(place(e.pointer) || "request")} ${e.detail}`)),
      ),
    id && h("p.hint", {}, "For whoever runs this service: request ", h("code", {}, id)),
  );
}

// --- what is known now -----------------------------------------------------------------------------------------------

const now = {
  /** @type {Model[]} */ models: [],
  /** @type {Method[]} */ methods: [],
  /** @type {Feature[]} */ features: [],
  /** @type {Applicant | null} */ sample: null,
  /** @type {any} the latest decision on the applicant */ decision: null,
  /** @type {any} the latest answer */ answer: null,
  /** @type {any} what it was asked for, and whether in the background */ asked: null,
};

const model = () => /** @type {Model} */ (now.models.find((m) => fullName(m) === $("model").value));
const method = () => /** @type {Method} */ (now.methods.find((m) => m.name === $("method").value));
const feature = (/** @type {string} */ name) => /** @type {Feature} */ (now.features.find((f) => f.name === name));
const fullName = (/** @type {{id: string, version: string}} */ m) => `${m.id}@${m.version}`;

/** The probability from which on a model says yes; null where it gives none. */
function threshold() {
  const { output, threshold: at } = model();
  if (at === null || output === "label") return null;
  return output === "logit" ? 1 / (1 + Math.exp(-at)) : at;
}

/** Records that miss the targets a little, about which the model itself is asked. */
const COPIES = 2000;

/** The question as the service is asked it. */
const question = () => ({
  model: $("model").value,
  applicant: applicant(),
  method: { name: $("method").value, ...parameters() },
  constraints: constraints(),
  // What the slope or a local model says about missed targets can be far off; the model itself knows.
  certificate: { noise_samples: COPIES },
});

// --- the applicant ---------------------------------------------------------------------------------------------------

/** What a person can do about a feature, in words. @param {Feature} f */
function freedom({ change, type }) {
  if (change === "none") return "fixed, never part of advice";
  if (change === "any") return type === "categorical" || type === "binary" ? "can change" : "up or down";
  const up = change === "increase";
  return type === "binary" ? `only to ${up ? "yes" : "no"}` : `only ${up ? "up" : "down"}`;
}

/** What may stand in a field, as a hint. @param {Feature} f */
function rangeOf(f) {
  const low = f.min === null ? "" : f.max === null ? `from ${spoken(f, f.min)}` : plain.format(f.min);
  const high = f.max === null ? "" : `${f.min === null ? "up " : ""}to ${spoken(f, f.max)}`;
  const range = f.categories ? "" : `${low} ${high}`.trim() || "any number";
  return [range, freedom(f)].filter(Boolean).join(" · ");
}

/** @param {Feature} f */
function field(f) {
  const id = `f-${f.name}`;
  const common = {
    id,
    name: f.name,
    "aria-describedby": `${id}-hint`,
    oninput: () => changed(f),
    onblur: () => check(f, true),
  };
  const options = (f.categories ?? []).map((c, i) => h("option", { value: i }, spoken(f, c)));
  const input = f.categories
    ? h("select", common, h("option", { value: "" }, "choose"), ...options)
    : h("input", { ...common, type: "number", step: f.type === "integer" ? 1 : "any", inputmode: "decimal" });
  return h(
    "div.field",
    {},
    h("label", { for: id }, f.label),
    f.unit ? h("span.with-unit", {}, input, h("span", {}, f.unit)) : input,
    h("p.hint", { id: `${id}-hint` }, rangeOf(f)),
  );
}

/** The value in a field; null where it has none. @param {Feature} f @returns {Value | null} */
function valueOf(f) {
  const input = $(`f-${f.name}`);
  if (input.value === "") return null;
  return f.categories ? f.categories[Number(input.value)] : Number(input.value);
}

/** What is wrong with a field; empty if nothing is. @param {Feature} f */
function faultOf(f) {
  const value = valueOf(f);
  if ($(`f-${f.name}`).validity.badInput) return "must be a number";
  if (value === null) return "needs a value";
  if (typeof value !== "number") return "";
  if (f.type === "integer" && !Number.isInteger(value)) return "must be a whole number";
  if (f.min !== null && value < f.min) return `must be at least ${spoken(f, f.min)}`;
  if (f.max !== null && value > f.max) return `must be at most ${spoken(f, f.max)}`;
  return "";
}

/** Say what is wrong with a field, in place of its hint. @param {Feature} f @param {boolean} lenient about no value yet */
function check(f, lenient) {
  const fault = faultOf(f);
  const tell = fault && !(lenient && fault === "needs a value");
  $(`f-${f.name}`).setAttribute("aria-invalid", String(Boolean(tell)));
  $(`f-${f.name}-hint`).textContent = tell ? `${f.label} ${fault}.` : rangeOf(f);
  $(`f-${f.name}-hint`).classList.toggle("fault", Boolean(tell));
}

/** @returns {Applicant} */
const applicant = () => Object.fromEntries(now.features.map((f) => [f.name, /** @type {Value} */ (valueOf(f))]));

/** @param {Feature} f */
function changed(f) {
  check(f, true);
  mark(f);
  outdated();
  decideSoon();
}

/** @param {Applicant} record */
function fill(record) {
  for (const f of now.features) {
    const value = record[f.name];
    $(`f-${f.name}`).value = f.categories ? f.categories.indexOf(/** @type {any} */ (value)) : value;
    check(f, false);
    mark(f);
  }
  outdated();
  decide();
}

// --- the decision, as you type ---------------------------------------------------------------------------------------

const decideSoon = later(decide, 150);
let deciding = new AbortController();

async function decide() {
  deciding.abort();
  deciding = new AbortController();
  now.decision = null;
  const wrong = now.features.filter(faultOf);
  if (wrong.length > 0) {
    const empty = wrong.length === now.features.length;
    $("verdict").replaceChildren(
      empty
        ? "Fill in the applicant, or start with an example."
        : `${counted(wrong.length, "field")} to fill in or correct.`,
    );
    $("scale").replaceChildren();
    return;
  }
  try {
    const body = { records: [applicant()] };
    const { predictions } = await ask(`models/${encodeURIComponent($("model").value)}/predict`, {
      body,
      signal: deciding.signal,
    });
    now.decision = predictions[0];
    $("verdict").replaceChildren(...decided(predictions[0]));
    $("scale").replaceChildren(scale([predictions[0].probability]) ?? "");
  } catch (problem) {
    if (!stopped(problem)) $("verdict").replaceChildren(explained(problem));
  }
}

/** A decision in words. @param {any} decision */
function decided({ favourable, probability }) {
  const at = threshold();
  const needed = at === null ? "" : ` A yes needs ${Math.round(100 * at)}.`;
  const chance =
    probability !== null && `${inHundred(probability)}: the chance of a good outcome, as it sees it.${needed}`;
  const word = h(favourable ? "b.yes" : "b.no", {}, favourable ? "yes" : "no");
  return ["The model says ", word, ". ", h("span.hint", {}, chance || "")];
}

/** A chance on the scale from 0 to 100, with the threshold; two chances are before and after. @param {number[]} chances */
function scale(chances) {
  if (chances.some((chance) => chance == null)) return null;
  const at = threshold();
  const place = (/** @type {number} */ share) => `${100 * share}%`;
  return h(
    "div.bar",
    { style: { "--from": place(chances.length > 1 ? chances[0] : 0), "--to": place(chances[chances.length - 1]) } },
    h("i"),
    at !== null && h("span", { style: { "--at": place(at) } }, h("small", {}, `yes from ${Math.round(100 * at)}`)),
  );
}

// --- what this person can and cannot do ------------------------------------------------------------------------------

const WAYS = { any: "either way", increase: "only up", decrease: "only down", none: "stays" };

/** Which ways are open that the lender has not closed. @param {Feature} f */
function waysOf(f) {
  if (f.type === "binary" || f.type === "categorical")
    return {
      any: f.type === "binary" && f.change !== "any" ? `may change, ${freedom(f)}` : "may change",
      none: WAYS.none,
    };
  return f.change === "any" ? WAYS : { any: WAYS[/** @type {"increase"} */ (f.change)], none: WAYS.none };
}

/** The places a feature can be moved to, as numbers; null where they have no ends. @param {Feature} f */
function track(f) {
  if (f.type === "categorical" || f.type === "binary") return null;
  if (f.categories) return { min: 0, max: f.categories.length - 1, step: 1 };
  if (f.min === null || f.max === null) return null;
  const fine = f.type === "integer" ? 1 : 10 ** -(f.decimals ?? 2);
  return { min: f.min, max: f.max, step: f.step ?? fine };
}

/** Where a value is on its track, from 0 to 1. @param {Feature} f @param {Value | null} value */
function along(f, value) {
  const ends = track(f);
  if (!ends || value === null) return null;
  const at = f.categories ? f.categories.indexOf(/** @type {any} */ (value)) : Number(value);
  return (at - ends.min) / (ends.max - ends.min);
}

/** @param {Feature} f */
function limitRow(f) {
  if (f.change === "none") return null;
  const ways = Object.entries(waysOf(f)).map(([way, text], i) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name: `way-${f.name}`, value: way, checked: i === 0, onchange: () => narrowed(f) }),
      h("span", {}, text),
    ),
  );
  const ends = track(f);
  const handle = (/** @type {"min" | "max"} */ end, /** @type {string} */ text) =>
    h("input", {
      type: "range",
      id: `${end}-${f.name}`,
      ...ends,
      value: ends?.[end],
      "aria-label": `${f.label}: ${text}`,
      oninput: () => narrowed(f, end),
    });
  return h(
    "fieldset.limit",
    { id: `limit-${f.name}` },
    h("legend", {}, f.label),
    h("div.ways", {}, ...ways),
    ends &&
      h("div.track", {}, h("i"), h("b", { hidden: true }), handle("min", "not below"), handle("max", "not above")),
    ends && h("output.hint", {}, ""),
  );
}

/** Show the limits of a feature in words, and keep its two handles apart. @param {Feature} f @param {"min" | "max"} [moved] */
function sayLimits(f, moved) {
  const row = $(`limit-${f.name}`);
  const ends = track(f);
  if (!row || !ends) return;
  const [low, high] = [$(`min-${f.name}`), $(`max-${f.name}`)];
  if (Number(low.value) > Number(high.value))
    (moved === "min" ? high : low).value = moved === "min" ? low.value : high.value;
  const text = (/** @type {any} */ handle) =>
    spoken(f, f.categories ? f.categories[Number(handle.value)] : Number(handle.value));
  for (const handle of [low, high]) handle.setAttribute("aria-valuetext", text(handle));
  const share = (/** @type {any} */ handle) => `${(100 * (handle.value - ends.min)) / (ends.max - ends.min)}%`;
  row.style.setProperty("--low", share(low));
  row.style.setProperty("--high", share(high));
  const bound = boundsOf(f);
  row.querySelector("output").textContent = bound
    ? `Kept between ${text(low)} and ${text(high)}`
    : `Anything from ${text(low)} to ${text(high)}`;
}

/** Show on its track where the applicant is now. @param {Feature} f */
function mark(f) {
  const here = $(`limit-${f.name}`)?.querySelector(".track b");
  const at = faultOf(f) ? null : along(f, valueOf(f));
  if (!here) return;
  here.hidden = at === null;
  here.style.setProperty("--at", `${100 * (at ?? 0)}%`);
  here.title = "now";
}

/** @param {Feature} f @param {"min" | "max"} [end] */
function narrowed(f, end) {
  sayLimits(f, end);
  askAgain();
}

/** The range that was chosen, if it is narrower than the lender's. @param {Feature} f */
function boundsOf(f) {
  const ends = track(f);
  if (!ends || !$(`min-${f.name}`)) return null;
  const read = (/** @type {string} */ end) => Number($(`${end}-${f.name}`).value);
  const named = (/** @type {number} */ at) => (f.categories ? f.categories[at] : at);
  const bounds = {
    ...(read("min") > ends.min && { min: named(read("min")) }),
    ...(read("max") < ends.max && { max: named(read("max")) }),
  };
  return Object.keys(bounds).length > 0 ? bounds : null;
}

/** @param {Feature} f @returns {string} */
const wayOf = (f) =>
  /** @type {any} */ (document.querySelector(`input[name="way-${CSS.escape(f.name)}"]:checked`))?.value ?? "any";

/** What was narrowed, as the service is told. */
function constraints() {
  const ways = now.features.map((f) => [f.name, wayOf(f)]);
  const bounds = now.features.map((f) => [f.name, wayOf(f) === "none" ? null : boundsOf(f)]);
  return {
    immutable: ways.filter(([, way]) => way === "none").map(([name]) => name),
    direction: Object.fromEntries(ways.filter(([, way]) => way === "increase" || way === "decrease")),
    bounds: Object.fromEntries(bounds.filter(([, bound]) => bound)),
    ...($("most").value && { max_changes: Number($("most").value) }),
  };
}

/** Take back a constraint that stands in the way. @param {{constraint: string, feature: string | null}} relax */
function allow({ constraint, feature: name }) {
  if (constraint === "max_changes") $("most").value = "";
  const f = feature(name ?? "");
  if (f && constraint === "bounds")
    for (const end of /** @type {const} */ (["min", "max"])) $(`${end}-${f.name}`).value = track(f)?.[end];
  else if (f) /** @type {any} */ (document.querySelector(`input[name="way-${CSS.escape(f.name)}"]`)).checked = true;
  if (f) sayLimits(f);
  answer();
}

// --- the method, its parameters and the dial -------------------------------------------------------------------------

/** What a parameter takes, from its JSON Schema. @param {any} schema */
function kindOf(schema) {
  const choices = schema.anyOf ?? [schema];
  const number = choices.find((/** @type {any} */ c) => c.type === "number" || c.type === "integer");
  const words = choices.flatMap((/** @type {any} */ c) => c.enum ?? []);
  if (schema.type === "boolean") return { control: "check" };
  if (number && words.length === 0)
    return { control: "number", number, optional: choices.some((/** @type {any} */ c) => c.type === "null") };
  if (words.length > 0) return { control: number ? "text" : "select", number, words };
  return { control: schema.type === "string" ? "text" : "json" };
}

/** @param {any} number a JSON Schema @returns {string} its limits in words */
function limitsOf({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }) {
  const low = minimum ?? exclusiveMinimum;
  const high = maximum ?? exclusiveMaximum;
  return [
    low !== undefined && `${exclusiveMinimum === undefined ? "from" : "above"} ${plain.format(low)}`,
    high !== undefined && `${exclusiveMaximum === undefined ? "to" : "below"} ${plain.format(high)}`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** @param {string} name @param {any} schema */
function parameter(name, schema) {
  const id = `p-${name}`;
  const { control, number, words = [], optional } = kindOf(schema);
  const set = control === "json" ? "" : (schema.default ?? "");
  const common = { id, "aria-describedby": `${id}-hint`, oninput: () => (turnTo(name), outdated()) };
  const usual = optional && schema.default === null ? "empty: chosen for you" : number && `usually ${schema.default}`;
  const limits = [number && limitsOf(number), control === "text" && words.join(", "), usual].filter(Boolean).join("; ");
  const hint = h(
    "p.hint",
    { id: `${id}-hint` },
    ...prose(schema.description ?? ""),
    limits && h("span.limits", {}, ` (${limits})`),
  );
  if (control === "check")
    return h(
      "div.field",
      {},
      h("label.check", {}, h("input", { ...common, type: "checkbox", checked: set === true }), ` ${humane(name)}`),
      hint,
    );
  const input = {
    number: () =>
      h("input", {
        ...common,
        type: "number",
        step: number.type === "integer" ? 1 : "any",
        min: number.minimum,
        max: number.maximum,
        value: set,
      }),
    select: () =>
      h("select", common, ...words.map((/** @type {string} */ word) => h("option", { selected: word === set }, word))),
    text: () => h("input", { ...common, value: set, autocomplete: "off" }),
    json: () => h("textarea", { ...common, rows: 2, placeholder: "JSON, or empty" }),
  }[/** @type {"number"} */ (control)]();
  return h("div.field", {}, h("label", { for: id }, humane(name)), input, hint);
}

/** The parameters that differ from what is usual. @returns {Record<string, any>} */
function parameters() {
  const set = Object.entries(method().parameters.properties).filter(([name]) => name !== "name");
  return Object.fromEntries(
    set.map(([name, schema]) => [name, read(name, schema)]).filter(([, value]) => value !== undefined),
  );
}

/** @param {string} name @param {any} schema */
function read(name, schema) {
  const input = $(`p-${name}`);
  const { control, number } = kindOf(schema);
  if (control === "check") return input.checked === schema.default ? undefined : input.checked;
  const text = input.value.trim();
  if (text === "" || text === String(schema.default)) return undefined;
  if (control === "json") return parsed(text);
  return number && !Number.isNaN(Number(text)) ? Number(text) : text;
}

/** What was meant as JSON; the text itself, which the service will refuse with a reason, if it is none. @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const FACTORS = [0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];

/** Sensible values of a knob around the usual one, from the cheapest answer to the most robust. @param {string} knob */
function ladder(knob) {
  const schema = method().parameters.properties[knob];
  const { number } = kindOf(schema);
  const usual = typeof schema.default === "number" && schema.default > 0 ? schema.default : 0.3;
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = number;
  const fits = (/** @type {number} */ v) =>
    v >= minimum && v <= maximum && v > exclusiveMinimum && v < exclusiveMaximum;
  const values = FACTORS.map((factor) => Number((usual * factor).toPrecision(2))).filter(fits);
  return method().robust_when[knob] === "larger" ? values : values.reverse();
}

/** Offer the parameters of the chosen method, and the dial if it has one. */
function chooseMethod() {
  const { summary, reference, parameters: schema, knobs } = method();
  $("method-about").replaceChildren(summary, h("br"), `From: ${reference}`);
  const shown = Object.entries(schema.properties).filter(([name]) => name !== "name");
  const [first, rest] = [
    shown.filter(([name]) => knobs.includes(name)),
    shown.filter(([name]) => !knobs.includes(name)),
  ];
  $("parameters").replaceChildren(...[...first, ...rest].map(([name, about]) => parameter(name, about)));
  $("knob").replaceChildren(...knobs.map((knob) => h("option", { value: knob }, humane(knob))));
  $("dial-panel").hidden = knobs.length === 0;
  if (knobs.length > 0) turnTo(knobs[0]);
  outdated();
}

/** Let the dial show the value of its parameter. @param {string} name of the parameter that has changed */
function turnTo(name) {
  const [knob] = method().knobs;
  if (name !== knob) return;
  const values = ladder(knob);
  const value = Number($(`p-${knob}`).value);
  const distances = values.map((v) => Math.abs(v - value));
  $("dial").max = values.length - 1;
  $("dial").value = distances.indexOf(Math.min(...distances));
  sayDial(value);
}

/** @param {number} value */
function sayDial(value) {
  const [knob] = method().knobs;
  const position = `Step ${Number($("dial").value) + 1} of ${Number($("dial").max) + 1}`;
  $("dial").setAttribute("aria-valuetext", position);
  $("dial-says").replaceChildren(
    `${position}. A safer change asks more of the person, and is less likely to be undone later. `,
    h("span.limits", {}, `(${humane(knob)}: ${plain.format(value)})`),
  );
}

/** Let the parameter follow the dial. */
function turned() {
  const [knob] = method().knobs;
  const value = ladder(knob)[Number($("dial").value)];
  $(`p-${knob}`).value = value;
  sayDial(value);
  askAgain();
}

// --- asking ----------------------------------------------------------------------------------------------------------

const BACKGROUND = { prefer: "respond-async", deadline_ms: 60000 };
const answerSoon = later(() => answer(false), 300);
let answering = new AbortController();

/** What is shown no longer belongs to what is entered. */
function outdated() {
  if (now.answer) $("answer-body").classList.add("outdated");
  if (curve) $("curve").classList.add("outdated");
}

/** After a turn of the dial or a new limit the answer follows, once there has been one. */
function askAgain() {
  outdated();
  if (now.answer && !now.features.some(faultOf)) answerSoon();
}

/**
 * Put a question that may become a job.
 * @param {string} path @param {any} body @param {HTMLElement} place where a job shows its progress
 * @param {{background?: boolean, signal?: AbortSignal}} options
 */
async function put(path, body, place, { background = false, signal } = {}) {
  place.replaceChildren();
  const asked = background ? { ...body, deadline_ms: BACKGROUND.deadline_ms } : body;
  const response = await send(path, { body: asked, signal, prefer: background ? BACKGROUND.prefer : undefined });
  const found = await response.json();
  return response.status === 202 ? runJob(found, place, signal) : found;
}

/** Ask what would change the answer. @param {boolean} [attended] whether a reader waits for just this */
async function answer(attended = true) {
  for (const f of now.features) check(f, false);
  const wrong = now.features.find(faultOf);
  if (wrong) {
    $(`f-${wrong.name}`).focus();
    $("verdict").textContent = `${counted(now.features.filter(faultOf).length, "field")} to fill in or correct.`;
    return;
  }
  answering.abort();
  const mine = (answering = new AbortController());
  $("answer").setAttribute("aria-busy", "true");
  $("said").textContent = "Asking";
  try {
    const background = $("background").checked;
    const body = { ...question(), store: false };
    const found = await put("recourse", body, $("answer-job"), { background, signal: mine.signal });
    if (mine.signal.aborted || found === null) return;
    now.answer = found;
    now.asked = { body, background };
    show(found);
    $("frontier").hidden = method().knobs.length === 0 || found.status === "already_favourable";
  } catch (problem) {
    if (!stopped(problem)) $("answer-body").replaceChildren(explained(problem));
  } finally {
    if (mine === answering) $("answer").removeAttribute("aria-busy");
  }
  if (attended) bringUp($("answer"));
}

/** Move the reader to what they have asked for. @param {HTMLElement} section */
function bringUp(section) {
  section.focus({ preventScroll: true });
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  section.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}

// --- the answer ------------------------------------------------------------------------------------------------------

/** @param {any} found */
function show(found) {
  const body = { found: shownFound, already_favourable: shownFavourable, not_found: shownNothing }[
    /** @type {"found"} */ (found.status)
  ];
  $("answer-body").classList.remove("outdated");
  fillIn("answer-body", ...body(found), ...warnings(found.warnings), workings(found));
  $("said").textContent = $("answer-body").querySelector("h3")?.textContent ?? "";
  const bounds = found.plan?.validity;
  if (bounds?.status === "pending") followBounds(bounds.job);
}

/** @param {any} found */
const shownFavourable = (found) => [
  h("h3", {}, "The model says yes already. Nothing needs to change."),
  scale([found.factual.probability]),
];

/** @param {any} found */
function shownFound(found) {
  const ways = found.counterfactuals;
  if (ways.length === 1) {
    const heading = h("h3", {}, `${counted(ways[0].changes.length, "change")} to a yes`);
    return [heading, ...counterfactual(ways[0], found.factual), keepForm(found)];
  }
  const inWords = (/** @type {any} */ way) =>
    h(
      "details",
      {},
      h("summary", {}, `Way ${way.rank} in words`),
      h("div.way", {}, ...counterfactual(way, found.factual)),
    );
  const heading = h("h3", {}, `${counted(ways.length, "way")} to a yes`);
  const sure = found.plan && together(found.plan, ways.length);
  return [heading, comparison(ways, found.factual), sure, ...ways.map(inWords), keepForm(found)];
}

/** Several ways to a yes, side by side. @param {any[]} ways @param {any} factual */
function comparison(ways, factual) {
  const moved = [...new Set(ways.flatMap((way) => way.changes.map((/** @type {any} */ made) => made.feature)))];
  const row = (/** @type {string} */ label, /** @type {string} */ before, /** @type {(way: any) => any} */ cell) =>
    h("tr", {}, h("th", { scope: "row" }, label), h("td", {}, before), ...ways.map((way) => h("td", {}, cell(way))));
  const features = moved.map((name) => {
    const f = /** @type {Feature} */ (feature(name));
    const made = (/** @type {any} */ way) => way.changes.find((/** @type {any} */ one) => one.feature === name);
    const before = spoken(f, ways.map(made).find(Boolean).from);
    return row(f.label, before, (way) => (made(way) ? h("b", {}, spoken(f, made(way).to)) : "as now"));
  });
  const lasting = (/** @type {any} */ way) =>
    way.validity.shift ? inHundred(way.validity.shift.gelbrich.lower, Math.floor) : "unknown";
  const undone = (/** @type {any} */ { validity: { noise } }) =>
    noise ? inHundred(noise.monte_carlo ?? noise.closed_form) : "unknown";
  const worth = [
    row("Chance of a good outcome", chance(factual), (way) => chance(way.validity.current)),
    row("Retrained models that say yes, at least", "", lasting),
    row("Refused after small misses", "", undone),
    row("Effort, in points", "", (way) => short.format(way.cost.total)),
  ];
  const heads = ["What changes", "Now", ...ways.map((way) => `Way ${way.rank}`)].map((text) =>
    h("th", { scope: "col" }, text),
  );
  const body = h(
    "table.ways-table",
    {},
    h("thead", {}, h("tr", {}, ...heads)),
    h("tbody", {}, ...features),
    h("tbody.worth", {}, ...worth),
  );
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": "The ways side by side" }, body);
}

/** One way to a yes: what to change, and what that is worth. @param {any} way @param {any} factual */
function counterfactual(way, factual) {
  return [
    h("ol.changes", {}, ...way.changes.map(change)),
    h(
      "p",
      {},
      `The model then says yes: ${chance(way.validity.current)}${factual ? `, instead of ${chance(factual)}` : ""}.`,
    ),
    factual && scale([factual.probability, way.validity.current.probability]),
    certificate(way),
    h(
      "p.hint",
      {},
      h("b", {}, `Effort: ${short.format(way.cost.total)} points.`),
      " One point is a typical difference between applicants in one number, or one other category; what the lender holds to be harder counts more.",
    ),
  ];
}

/** @param {any} decision */
const chance = (decision) =>
  decision.probability === null ? (decision.favourable ? "yes" : "no") : inHundred(decision.probability);

/** A change as a sentence, and as a move along the range of its feature. @param {any} made */
function change(made) {
  const f = feature(made.feature);
  const [from, to] = f ? [along(f, made.from), along(f, made.to)] : [null, null];
  const place = (/** @type {number} */ share) => `${100 * Math.min(1, Math.max(0, share))}%`;
  return h(
    "li",
    {},
    made.text,
    from !== null &&
      to !== null &&
      h(
        to < from ? "div.move.down" : "div.move",
        { "aria-hidden": "true", style: { "--from": place(Math.min(from, to)), "--to": place(Math.max(from, to)) } },
        h("i"),
      ),
  );
}

/** The certificate in plain words. @param {any} way */
function certificate({ validity: { noise, shift, joint }, report }) {
  if (!shift)
    return h(
      "p.note",
      {},
      "How long this yes will last could not be worked out: near this applicant the model’s decisions show no clear border.",
    );
  const { lower } = shift.gelbrich;
  const undone = noise.monte_carlo ?? noise.closed_form;
  return h(
    "dl.promise",
    {},
    ...promised(
      "If the model is retrained",
      lower,
      Math.floor,
      lower > 0
        ? `At least ${inHundred(lower, Math.floor)} retrained models still say yes.`
        : "Nothing can be promised: the yes is too close to a no.",
      "Over all retrainings as large as the data at hand suggest.",
    ),
    ...promised(
      "If the targets are missed a little",
      1 - undone,
      Math.round,
      `${sentence(inHundred(undone))} such applicants would be refused after all.`,
      noise.monte_carlo === null
        ? `Worked out from the ${noise.of === "model" ? "model" : "local model"}. A little: ${typical(noise.std)}.`
        : `Measured on the model: ${percentRange(noise.interval)}. A little: ${typical(noise.std)}.`,
    ),
    ...promised(
      "If both happen",
      joint.interval[0],
      Math.floor,
      joint.interval[0] > 0
        ? `At least ${inHundred(joint.interval[0], Math.floor)} still get a yes.`
        : "Nothing can be promised.",
      "With 95 in 100 certainty, by repeated draws.",
    ),
    ...reported(report),
  );
}

/** What a method says beyond the certificate. @param {any} report */
function reported(report) {
  if (report?.kind !== "invalidation") return [];
  const { rate, target, interval, samples } = report;
  return promised(
    "As measured for this advice",
    1 - rate,
    Math.round,
    `${sentence(inHundred(rate))} inexact copies are refused; at most ${inHundred(target)} were asked for.`,
    `The model itself was asked about ${plain.format(samples)} copies that miss the targets a little: ${percentRange(interval)}.`,
  );
}

/**
 * One promise: its condition, how much of it is kept, and what that means.
 * @param {string} condition @param {number} share @param {(value: number) => number} round @param {string} text @param {string} why
 */
const promised = (condition, share, round, text, why) => [
  h("dt", {}, condition),
  h(
    "dd",
    {},
    h("span.kept", { "aria-hidden": "true", style: { "--kept": `${Math.max(0, round(100 * share))}%` } }, h("i")),
    text,
    h("small.hint", {}, ` ${why}`),
  ),
];

/** @param {[number, number]} interval */
const percentRange = ([low, high]) =>
  `between ${short.format(100 * low)} and ${short.format(100 * high)} in 100, with 95 in 100 certainty`;

/** @param {number | Record<string, number>} std */
const typical = (std) =>
  typeof std === "number"
    ? `typically ${short.format(100 * std)}% of how much applicants differ in a number`
    : "as set for each number";

/** What all ways of a plan promise together. @param {any} plan @param {number} count */
function together({ validity: v }, count) {
  return h(
    "div.note",
    { id: "together" },
    h(
      "p",
      {},
      h("b", {}, "All of them together. "),
      `If the model is retrained, at least ${inHundred(v.lower, Math.floor)} retrained models still say yes to all ${count} at once`,
      v.exact
        ? " (proven, and no better bound is possible)."
        : `; the exact number is between this and ${inHundred(v.upper)}.`,
    ),
    h("div", { id: "bounds-job" }),
  );
}

/** Wait for the exact bounds of a plan. @param {string} address */
async function followBounds(address) {
  // Another answer may stand there by the time they are known.
  const shown = $("together");
  const place = $("bounds-job");
  try {
    const result = await runJob(await ask(address), place);
    if (result?.plan && shown.isConnected) shown.replaceWith(together(result.plan, result.counterfactuals.length));
  } catch (problem) {
    place.replaceChildren(explained(problem));
  }
}

const OBSTACLES = {
  immutable: "has to stay as it is",
  direction: "may move one way only",
  bounds: "has to keep within a range",
  change: "can be changed no further than the lender allows",
};

/** The constraint that stands most in the way, and a way out where it is the reader's own. @param {any} relax */
function obstacle(relax) {
  const { constraint, feature: name, sufficient } = relax;
  const label = feature(name ?? "")?.label ?? name;
  const what =
    constraint === "max_changes"
      ? `no more than ${counted(Number($("most").value), "thing")} may change`
      : `“${label}” ${OBSTACLES[/** @type {"bounds"} */ (constraint)]}`;
  const own = constraint !== "change";
  return h(
    "div.note",
    {},
    h(
      "p",
      {},
      h("b", {}, "What stands in the way most: "),
      `${what}.`,
      !sufficient && " Lifting this alone may not be enough.",
    ),
    own
      ? h("button", { type: "button", id: "allow", onclick: () => allow(relax) }, "Lift this limit, and ask again")
      : h("p.hint", {}, "Only whoever runs the model can lift this."),
  );
}

/** @param {any} found */
function shownNothing({ detail, reason, relax, nearest }) {
  return [
    h("h3", {}, "No way to a yes was found"),
    h("p", {}, detail),
    relax && obstacle(relax),
    reason === "deadline" &&
      h(
        "button",
        { type: "button", onclick: () => (($("background").checked = true), answer()) },
        "Take up to a minute, in the background",
      ),
    nearest &&
      h(
        "div",
        {},
        h("h4", {}, "The closest that was tried"),
        h("ol.changes", {}, ...nearest.changes.map(change)),
        h(
          "p.hint",
          {},
          nearest.favourable
            ? "The model accepts this, but it does not keep the promise that was asked for."
            : `The model still says no: ${chance(nearest)}.`,
        ),
      ),
  ];
}

/** @param {string[]} texts */
const warnings = (texts) =>
  texts.length > 0
    ? [h("div.note.warn", {}, h("b", {}, "Please note"), h("ul", {}, ...texts.map((text) => h("li", {}, text))))]
    : [];

/** How an answer came about. @param {any} found */
function workings({ id, model: asked, method: used, surrogate, diagnostics: took, seed, expires_at: until }) {
  const rows = [
    ["Model", `${asked.id}, version ${asked.version}`],
    ["Good until", `${day.format(new Date(until))}, for this version of the model`],
    [
      "Method",
      Object.entries(used)
        .map(([name, value]) => (name === "name" ? value : `${name} ${JSON.stringify(value)}`))
        .join(", "),
    ],
    surrogate && [
      "How well a simple local model stands for the real one",
      `agrees on ${inHundred(surrogate.fidelity)} of ${plain.format(surrogate.samples)} trials near the border between no and yes`,
    ],
    [
      "Asked of the model",
      took.model_calls === null
        ? "unknown, as it was stopped"
        : `${counted(took.model_calls, "call")}, ${counted(took.model_rows, "record")}`,
    ],
    ["Time", `${short.format(took.elapsed_ms)} milliseconds`],
    ["To get exactly this again", `seed ${seed}`],
    ["Number of this answer", id],
  ].filter(Boolean);
  return h(
    "details.workings",
    {},
    h("summary", {}, "How this was worked out"),
    h("dl", {}, ...rows.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)])),
  );
}

// --- the frontier ----------------------------------------------------------------------------------------------------

/** @type {{points: any[], parameter: string, factual: any, chosen: number} | null} */
let curve = null;

async function drawFrontier() {
  $("draw").disabled = true;
  const sweep = { parameter: $("knob").value, values: ladder($("knob").value) };
  try {
    const found = await put("recourse/frontier", { ...question(), sweep }, $("frontier-job"), {
      background: $("background").checked,
    });
    if (found === null) return;
    const points = found.points.map((/** @type {any} */ point, /** @type {number} */ i) => ({ ...point, step: i + 1 }));
    const able = points.filter((/** @type {any} */ point) => point.counterfactual);
    const usual =
      able.find((/** @type {any} */ point) => point.value === Number($(`p-${found.parameter}`).value)) ?? able[0];
    const chosen = points.indexOf(usual);
    curve = { points, parameter: found.parameter, factual: found.factual, chosen };
    $("against").value = usual?.counterfactual.report?.kind === "invalidation" ? "noise" : "shift";
    $("curve").classList.remove("outdated");
    drawCurve();
  } catch (problem) {
    $("curve").replaceChildren(explained(problem));
  } finally {
    $("draw").disabled = false;
  }
}

/** How sure the yes of a point is, from 0 to 1. @param {any} point @returns {number} */
function certainty({ counterfactual: { validity } }) {
  if (!validity.shift) return 0;
  return $("against").value === "shift"
    ? validity.shift.gelbrich.lower
    : 1 - (validity.noise.monte_carlo ?? validity.noise.closed_form);
}

function drawCurve() {
  if (!curve) return;
  const { points, chosen, factual, parameter: knob } = curve;
  const found = points.filter((point) => point.counterfactual);
  if (found.length === 0) {
    $("curve").replaceChildren(h("p.note", {}, points[0].detail));
    return;
  }
  const { counterfactual: way, step } = points[chosen];
  const caption = "Filled points are worth considering; at an open one, another point is as safe for no more effort.";
  const figure = h("figure", {}, h("figcaption.hint", {}, caption));
  const heading = h("h3", {}, `Step ${step}: ${counted(way.changes.length, "change")} to a yes`);
  const shown = h("div", { id: "chosen", role: "status" }, heading, ...counterfactual(way, factual));
  $("curve").replaceChildren(h("div.beside", {}, figure, table(points, knob)), shown);
  figure.prepend(plot(found, figure.clientWidth));
}

/** @param {number} i @param {boolean} [keyboard] whether to keep the focus on the button of the point */
function choose(i, keyboard) {
  if (!curve) return;
  curve.chosen = i;
  drawCurve();
  if (keyboard) $(`point-${i}`).focus();
}

/** The curve of effort against certainty. @param {any[]} found points with an answer @param {number} room */
function plot(found, room) {
  const [width, height, left, bottom, top, right] = [Math.max(280, Math.min(600, room)), 290, 46, 44, 14, 14];
  const most = nice(Math.max(...found.map((point) => point.cost)));
  const x = (/** @type {number} */ cost) => left + (cost / most.max) * (width - left - right);
  const y = (/** @type {number} */ share) => height - bottom - share * (height - bottom - top);
  const useful = found.filter((point) => !point.dominated).sort((a, b) => a.cost - b.cost);
  const steps = useful.map((point, i) => `${i ? "L" : "M"}${x(point.cost)} ${y(certainty(point))}`).join("");
  const label = (/** @type {any} */ attributes, /** @type {string} */ text) => svg("text", attributes, text);
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "curve", "aria-hidden": "true" },
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
      svg("path", { class: "grid", d: `M${left} ${y(share)}H${width - right}` }),
      label({ x: left - 6, y: y(share) + 4, class: "end" }, `${100 * share}`),
    ]),
    ...most.ticks.map((tick) => label({ x: x(tick), y: height - bottom + 18, class: "middle" }, short.format(tick))),
    label({ x: (left + width - right) / 2, y: height - 6, class: "middle" }, "effort, in points \u2192"),
    label(
      { transform: `translate(12 ${(height - bottom + top) / 2}) rotate(-90)`, class: "middle" },
      "a yes, in 100 \u2192",
    ),
    svg("path", { class: "line", d: steps }),
    ...found.map((point) => {
      const i = point.step - 1;
      const state = `${point.dominated ? "open" : ""} ${i === curve?.chosen ? "chosen" : ""}`;
      return svg(
        "circle",
        {
          cx: x(point.cost),
          cy: y(certainty(point)),
          r: i === curve?.chosen ? 8 : 5.5,
          class: state,
          onclick: () => choose(i),
        },
        svg("title", {}, `Step ${point.step}`),
      );
    }),
  );
}

/** Round numbers from 0 to beyond the largest. @param {number} largest */
function nice(largest) {
  const raw = (largest || 1) / 4;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * /** @type {number} */ ([1, 2, 2.5, 5, 10].find((m) => m * unit >= raw));
  const ticks = Array.from({ length: Math.ceil((largest || 1) / step - 1e-9) + 1 }, (_, i) => i * step);
  return { ticks, max: ticks[ticks.length - 1] };
}

/** A share where its unit stands above it. @param {number} share @param {(value: number) => number} [round] */
const percent = (share, round) =>
  inHundred(share, round).replace("fewer than ", "< ").replace("more than ", "> ").replace(" in 100", "");

/** The same as the curve, to read. @param {any[]} points @param {string} knob */
function table(points, knob) {
  const row = (/** @type {any} */ point, /** @type {number} */ i) => {
    const { counterfactual: way } = point;
    const lasts = way?.validity.shift;
    const button =
      way &&
      h(
        "button",
        {
          type: "button",
          id: `point-${i}`,
          "aria-pressed": String(i === curve?.chosen),
          onclick: () => choose(i, true),
        },
        "Show",
        h("span.unseen", {}, ` the changes of step ${point.step}`),
      );
    return h(
      "tr",
      { class: i === curve?.chosen && "chosen" },
      h("th", { scope: "row" }, `${point.step}`, h("small", {}, ` (${plain.format(point.value)})`)),
      h("td", {}, way ? short.format(point.cost) : "none found"),
      h("td", {}, lasts ? percent(lasts.gelbrich.lower, Math.floor) : ""),
      h("td", {}, lasts ? percent(way.validity.noise.monte_carlo ?? way.validity.noise.closed_form) : ""),
      h("td", {}, button),
    );
  };
  const heads = [
    `Step (${humane(knob).toLowerCase()})`,
    "Effort, points",
    "Yes after retraining, at least, in 100",
    "Refused after small misses, in 100",
  ];
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": "The curve as a table" },
    h(
      "table",
      {},
      h("caption.unseen", {}, "What more certainty costs"),
      h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col" }, text)), h("td", {}))),
      h("tbody", {}, ...points.map(row)),
    ),
  );
}

// --- the ledger ------------------------------------------------------------------------------------------------------

/** A form that keeps an answer; nothing for one that is kept already. @param {any} found */
function keepForm(found) {
  if (found.stored) return null;
  const { body, background } = now.asked; // the form may say something else by then
  const reference = h("input", {
    id: "keep-as",
    maxlength: 200,
    autocomplete: "off",
    placeholder: "for example application-81723",
  });
  const place = h("div", {});
  const form = h(
    "form.row",
    { id: "keep" },
    h("div.field", {}, h("label", { for: "keep-as" }, "Keep this answer, under the reference"), reference),
    h("button", {}, "Keep"),
    place,
  );
  form.onsubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const again = { ...body, store: true, reference: reference.value || null };
      const kept = await put("recourse", again, place, { background });
      if (kept === null) return;
      const same = kept.status === found.status;
      form.replaceWith(
        h(
          "p.note",
          { role: "status" },
          same ? "Kept as " : "Asked again, the service gave another answer, not the one above; that was kept as ",
          h("code", {}, kept.id),
          ". It can be found below, and checked against other versions of the model.",
        ),
      );
      find();
    } catch (problem) {
      form.append(explained(problem));
    }
  };
  return form;
}

async function find() {
  const reference = $("reference").value.trim();
  try {
    const { recourse } = await ask(
      `recourse?limit=20${reference ? `&reference=${encodeURIComponent(reference)}` : ""}`,
    );
    $("found").replaceChildren(
      recourse.length > 0
        ? h("ul.cases", {}, ...recourse.map(outline))
        : h("p.note", { role: "status" }, "No kept answer has this reference."),
    );
  } catch (problem) {
    $("found").replaceChildren(explained(problem));
  }
}

/** One answer that was kept. @param {any} given */
function outline(given) {
  const result = h("div", { role: "status" });
  const versions = now.models
    .filter((m) => m.id === given.model.id)
    .map((m) => h("option", { value: fullName(m) }, `version ${m.version}${m.active ? "" : ", not in use"}`));
  const choice = h("select", { "aria-label": `Version to ask about ${given.id}` }, ...versions);
  const verify = async () => result.replaceChildren(...(await verified(given.id, choice.value)));
  const open = async () => result.replaceChildren(...(await opened(given.id)));
  return h(
    "li",
    {},
    h(
      "p",
      {},
      h("b", {}, given.reference ?? "no reference"),
      ` · ${{ found: "a way to a yes", not_found: "no way found", already_favourable: "yes already" }[/** @type {"found"} */ (given.status)]} · `,
      `given ${day.format(new Date(given.created_at))}, good until ${day.format(new Date(given.expires_at))} · `,
      h("code", {}, given.id),
    ),
    given.status === "found" &&
      h(
        "div.row",
        {},
        h("button", { type: "button", onclick: open }, "Show it"),
        choice,
        h("button", { type: "button", onclick: verify }, "Does it still say yes?"),
      ),
    result,
  );
}

/** A kept answer, as it was given. @param {string} id */
async function opened(id) {
  try {
    const { counterfactuals } = await ask(`recourse/${id}`);
    const said = (/** @type {any} */ way) => way.changes.map((/** @type {any} */ made) => h("li", {}, made.text));
    return counterfactuals.map((/** @type {any} */ way) =>
      h("div.way", {}, h("ol.changes", {}, ...said(way)), certificate(way)),
    );
  } catch (problem) {
    return [explained(problem)];
  }
}

/** @param {string} id @param {string} version */
async function verified(id, version) {
  try {
    const { still_valid: kept, counterfactuals } = await ask(`recourse/${id}/verify`, { body: { model: version } });
    const chances = counterfactuals
      .map((/** @type {any} */ c) => (c.reason === "does_not_fit" ? "the record no longer fits the model" : chance(c)))
      .join("; ");
    return [
      h(
        "p.note",
        {},
        h(kept ? "b.yes" : "b.no", {}, kept ? "Kept." : "Broken."),
        kept ? ` ${version} still says yes: ${chances}.` : ` ${version} would say no: ${chances}.`,
      ),
    ];
  } catch (problem) {
    return [explained(problem)];
  }
}

/** Ask a version about every promise. @param {Event} event */
async function audit(event) {
  event.preventDefault();
  const version = $("candidate").value;
  const place = $("audit-job");
  try {
    const job = await ask(`models/${encodeURIComponent(version.split("@")[0])}/audits`, {
      body: { model: version },
      prefer: BACKGROUND.prefer,
    });
    const result = await runJob(job, place);
    if (result) $("audited").replaceChildren(...audited(result));
  } catch (problem) {
    $("audited").replaceChildren(explained(problem));
  }
}

/** Kept and broken promises as a bar, in numbers, and one by one. @param {any} result */
function audited({ promises, still_valid: kept, broken, promised_lower: least, broken_promises: list }) {
  if (promises === 0) return [h("p.note", {}, "There are no promises to check yet: keep an answer first.")];
  const share = kept / promises;
  return [
    h("div.kept.audit", { "aria-hidden": "true", style: { "--kept": `${100 * share}%` } }, h("i")),
    h(
      "p",
      { role: "status" },
      `Of ${counted(promises, "promise")}, `,
      h("b.yes", {}, `${kept} kept`),
      " and ",
      h("b.no", {}, `${broken} broken`),
      ` by this version: ${inHundred(share)} kept.`,
      least !== null && ` On average at least ${inHundred(least, Math.floor)} were promised.`,
    ),
    list.length > 0 &&
      h(
        "ul",
        {},
        ...list.map((/** @type {any} */ b) =>
          h(
            "li",
            {},
            h("code", {}, b.id),
            b.reason === "refused" ? ": the model would say no" : ": the record no longer fits the model",
          ),
        ),
      ),
  ].filter(Boolean);
}

/** The versions that promises can be held against. */
function offerLedger() {
  $("ledger").hidden = false;
  $("candidate").replaceChildren(
    ...now.models.map((m) =>
      h("option", { value: fullName(m) }, `${m.title}, version ${m.version}${m.active ? "" : ", not in use"}`),
    ),
  );
}

// --- start -----------------------------------------------------------------------------------------------------------

/** Offer the form of the chosen model. */
async function chooseModel() {
  const name = $("model").value;
  const { features, rules, sample } = await ask(`models/${encodeURIComponent(name)}/schema`);
  if (name !== $("model").value) return;
  Object.assign(now, { features, sample, answer: null });
  $("about").textContent = model().description ?? "";
  $("rules").textContent = rules.length > 0 ? `Always true of an answer: ${rules.join("; ")}.` : "";
  $("fields").replaceChildren(...features.map(field), h("button.unseen", { tabindex: -1 }, "Ask"));
  $("limit-rows").replaceChildren(...features.map(limitRow).filter(Boolean));
  for (const f of features) sayLimits(f);
  for (const id of ["limits", "how"]) $(id).hidden = false;
  $("example").disabled = sample === null;
  $("ask").disabled = false;
  chooseMethod();
  document.body.classList.remove("loading");
  decide();
}

/** The methods, those with one answer and those with several apart. */
function offerMethods() {
  const groups = { counterfactual: "One way to a yes", plan: "Several ways side by side" };
  const of = (/** @type {string} */ yields) =>
    now.methods.filter((m) => m.yields === yields).map((m) => h("option", { value: m.name }, humane(m.name)));
  $("method").replaceChildren(
    ...Object.entries(groups)
      .filter(([yields]) => of(yields).length > 0)
      .map(([yields, label]) => h("optgroup", { label }, ...of(yields))),
  );
}

function listen() {
  $("model").onchange = guarded(chooseModel);
  $("method").onchange = chooseMethod;
  $("example").onclick = () => fill(/** @type {Applicant} */ (now.sample));
  $("fields").onsubmit = (/** @type {Event} */ event) => (event.preventDefault(), answer());
  $("ask").onclick = () => answer();
  $("most").oninput = askAgain;
  $("dial").oninput = turned;
  $("draw").onclick = drawFrontier;
  $("against").onchange = drawCurve;
  $("find").onsubmit = (/** @type {Event} */ event) => (event.preventDefault(), find());
  $("audit").onsubmit = audit;
  $("forget").onclick = () => (sessionStorage.removeItem(KEY), location.reload());
  $("forget").hidden = !sessionStorage.getItem(KEY);
  addEventListener("resize", later(drawCurve, 200));
}

/** Work whose failure is shown where the decision would be. @param {() => Promise<void>} work */
const guarded = (work) => async () => {
  try {
    await work();
  } catch (problem) {
    document.body.classList.remove("loading");
    $("verdict").replaceChildren(explained(problem));
  }
};

async function start() {
  const [{ models }, { methods, default: usual }] = await Promise.all([ask("models"), ask("methods")]);
  Object.assign(now, { models, methods });
  const active = models.filter((/** @type {Model} */ m) => m.active);
  if (active.length === 0) throw new Problem({ title: "No model", detail: "This service has no model in use yet." });
  $("model").replaceChildren(
    ...active.map((/** @type {Model} */ m) => h("option", { value: fullName(m) }, `${m.title}, version ${m.version}`)),
  );
  $("model").value = fullName(active.filter((/** @type {Model} */ m) => m.id === active[0].id).at(-1));
  $("model").disabled = false;
  offerMethods();
  $("method").value = usual;
  await chooseModel();
  offerLedger();
}

listen();
guarded(start)();
