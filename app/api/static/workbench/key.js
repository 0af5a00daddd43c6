// @ts-check
/** The API key: kept in this tab's session only, and asked for when a request needs one. */

import { $ } from "./dom.js";

const KEY = "recourse-api-key";

/** @returns {string | null} */
export const storedKey = () => sessionStorage.getItem(KEY);

/** Forget the key and start again. */
export function forgetKey() {
  sessionStorage.removeItem(KEY);
  location.reload();
}

/** @type {Promise<boolean> | null} */
let pending = null;

/**
 * Let the reader enter a key. Requests that need one at the same time share one dialog.
 * @param {string} reason shown in the dialog
 * @param {string | null} refused the key that the service refused; another one may have been entered since
 * @returns {Promise<boolean>} whether there is a key to try
 */
export function enterKey(reason, refused) {
  if (pending === null && storedKey() !== refused) return Promise.resolve(true);
  pending ??= new Promise((resolve) => {
    const close = (/** @type {boolean} */ entered) => {
      if (entered) sessionStorage.setItem(KEY, $("key-value").value.trim());
      $("key-value").value = "";
      $("key").onclose = null;
      $("key").close();
      $("forget").hidden = !entered;
      pending = null;
      resolve(entered);
    };
    $("key-reason").textContent = reason;
    $("key-form").onsubmit = (/** @type {Event} */ event) => (event.preventDefault(), close(true));
    $("key-cancel").onclick = () => close(false);
    $("key").onclose = () => close(false);
    $("key").showModal();
  });
  return pending;
}
