// @ts-check
/** Requests to the public API, with the API key; errors are problem documents (RFC 9457). */

import { enterKey, storedKey } from "./key.js";

/** Of the service, also where it is served below a path. */
const ROOT = new URL(".", document.baseURI);

/** A problem document, or a similar one where the service cannot be reached. */
export class Problem extends Error {
  /** @param {any} document */
  constructor(document) {
    super(document.detail || document.title);
    this.document = document;
  }
}

/** Whether a request ended because a later one replaced it. @param {any} error */
export const isAborted = (error) => error.name === "AbortError";

/**
 * @typedef {{body?: any, method?: string, prefer?: string, signal?: AbortSignal, headers?: Record<string, string>}}
 *   Options
 */

/**
 * Send a request; once more with a key if the service requires one.
 * @param {string} path @param {Options} options
 * @returns {Promise<Response>} a successful response
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

/** @param {string} path @param {Options} options @param {string | null} key */
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

/** Send a request and read its JSON. @param {string} path @param {Options} [options] @returns {Promise<any>} */
export const fetchJson = async (path, options) => (await send(path, options)).json();
