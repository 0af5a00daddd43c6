// @ts-check
/** The letter to the applicant about a stored answer: opened as a page that prints, or shown here where a key is needed. */

import { send } from "./api.js";
import { $, fill, h } from "./dom.js";
import { storedKey } from "./key.js";
import { problemNote } from "./problem.js";

/** Languages of the letters that the service brings; the lender may add others, such as the reader's own. */
const LANGUAGES = ["en", "de"];

const names = new Intl.DisplayNames("en", { type: "language" });

/** Choose a language and open the letter. @param {string} id of a stored answer */
export function letterForm(id) {
  const own = navigator.language.split("-")[0];
  const tags = [...new Set([...LANGUAGES, own])];
  const options = tags.map((tag) => h("option", { value: tag, selected: tag === own }, names.of(tag)));
  const language = h("select", { "aria-label": "Language of the letter" }, ...options);
  const path = (/** @type {string} */ format) => `recourse/${id}/notice?format=${format}&lang=${language.value}`;
  const place = h("div");
  // A page of its own cannot send a key, so the text is fetched.
  const open = async () => {
    try {
      const text = await (await send(path("text"))).text();
      place.replaceChildren();
      if (storedKey()) showLetter(text, language.value);
      else globalThis.open(path("html"), "_blank", "noopener");
    } catch (/** @type {any} */ problem) {
      // A key cannot be sent with a link.
      const draft = storedKey() ? "" : h("a", { href: `${path("html")}&draft=true`, target: "_blank" }, "Draft");
      place.replaceChildren(problemNote(problem), problem.document?.code === "notice-incomplete" ? draft : "");
    }
  };
  return h("div.row.letter", {}, language, h("button", { type: "button", onclick: open }, "Letter"), place);
}

/** @param {string} text @param {string} language */
function showLetter(text, language) {
  fill("letter-text", text);
  $("letter-text").lang = language;
  $("letter-print").onclick = () => print();
  $("letter-close").onclick = () => $("letter").close();
  $("letter").showModal();
}
