/**
 * Requests to the public API. Errors are problem documents (RFC 9457). A key is asked for when a request needs one, and
 * kept in this tab's session only.
 */

import { $, download } from "./dom.js";

const KEY = "recourse-api-key";

export const storedKey = () => sessionStorage.getItem(KEY);

export function forgetKey() {
  sessionStorage.removeItem(KEY);
  location.reload();
}

let pending = null;

/**
 * Let the reader enter a key. Requests that need one at the same time share one dialog.
 * @param reason shown in the dialog
 * @param refused the key that the service refused; another one may have been entered since
 * @returns whether there is a key to try
 */
function enterKey(reason, refused) {
  if (pending === null && storedKey() !== refused) return Promise.resolve(true);
  pending ??= new Promise((resolve) => {
    const close = (entered) => {
      if (entered) sessionStorage.setItem(KEY, $("key-value").value.trim());
      $("key-value").value = "";
      $("key").onclose = null;
      $("key").close();
      $("forget").hidden = !entered;
      pending = null;
      resolve(entered);
    };
    $("key-reason").textContent = reason;
    $("key-form").onsubmit = (event) => (event.preventDefault(), close(true));
    $("key-cancel").onclick = () => close(false);
    $("key").onclose = () => close(false);
    $("key").showModal();
  });
  return pending;
}

/** Of the service, also where it is served below a path. */
const ROOT = new URL(".", document.baseURI);

/** A problem document, or a similar one where the service cannot be reached. */
export class Problem extends Error {
  constructor(document) {
    super(document.detail || document.title);
    this.document = document;
  }
}

/** Whether a request ended because a later one replaced it. */
export const isAborted = (error) => error.name === "AbortError";

/**
 * Send a request; once more with a key if the service requires one.
 * @returns a successful response
 * @throws {Problem}
 */
export async function send(path, options = {}) {
  const key = storedKey();
  const response = await attempt(path, options, key);
  if (response.ok) return response;
  const document = await response.json().catch(() => ({ title: `The service answered ${response.status}` }));
  const problem = new Problem(document);
  if (response.status === 401 && (await enterKey(problem.message, key))) return send(path, options);
  throw problem;
}

function attempt(path, { body, method, prefer, signal, headers = {} }, key) {
  return fetch(new URL(path.replace(/^\//, ""), ROOT), {
    method: method ?? (body === undefined ? "GET" : "POST"),
    body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
    signal,
    headers: {
      ...(body !== undefined && { "Content-Type": body instanceof Blob ? body.type : "application/json" }),
      ...(prefer && { Prefer: prefer }),
      ...(key && { Authorization: `Bearer ${key}` }),
      ...headers,
    },
  }).catch((error) => {
    if (isAborted(error)) throw error;
    const title = "The service cannot be reached";
    throw new Problem({ title, detail: `${title}. Is it running?` });
  });
}

/** Open a page in a tab of its own; it is downloaded where that tab could not send the key. */
export async function openPage(path, name) {
  if (!storedKey()) open(path, "_blank", "noopener");
  else download(await (await send(path)).blob(), name);
}

export const fetchJson = async (path, options) => (await send(path, options)).json();
