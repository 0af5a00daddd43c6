// @ts-check
/** The letter to the applicant about a stored answer: shown, recorded as sent, and printed. */

import { fetchJson, send } from "./api.js";
import { $, fill, h } from "./dom.js";
import { formatTime } from "./format.js";
import { storedKey } from "./key.js";
import { problemNote } from "./problem.js";

/** Languages of the letters that the service brings; the lender may add others, such as the reader's own. */
const LANGUAGES = ["en", "de"];

const names = new Intl.DisplayNames("en", { type: "language" });

/** How a letter is sent, in words. @type {Record<string, string>} */
export const CHANNELS = {
  post: "by post",
  email: "by e-mail",
  portal: "in the customer portal",
  in_person: "in person",
  other: "another way",
};

/** The letter that is shown: of which answer, its page, and who is told once it is recorded. */
let shown = { id: "", page: "", onSent: () => {} };

/** A button that opens the letter. @param {string} id of a stored answer @param {() => void} [onSent] */
export const letterButton = (id, onSent = () => {}) =>
  h("button", { type: "button", onclick: () => openLetter(id, onSent) }, "Letter");

/** @param {string} id @param {() => void} onSent */
async function openLetter(id, onSent) {
  shown = { id, page: "", onSent };
  if ($("letter-language").options.length === 0) offerChoices();
  $("letter-form").reset();
  $("letter").showModal();
  await showLetter();
}

function offerChoices() {
  const own = navigator.language.split("-")[0];
  const tags = [...new Set([...LANGUAGES, own])];
  fill("letter-language", ...tags.map((tag) => h("option", { value: tag, selected: tag === own }, names.of(tag))));
  fill("letter-channel", ...Object.entries(CHANNELS).map(([name, text]) => h("option", { value: name }, text)));
}

/** Show the letter as it would be sent; where settings are missing, a draft that names them. */
export async function showLetter() {
  const language = $("letter-language").value;
  const path = `recourse/${shown.id}/notice?lang=${language}&draft=true`;
  shown.page = `${path}&format=html`;
  fill("letter-said");
  $("letter-record").disabled = true;
  try {
    const { missing } = await fetchJson(path);
    letterText(await (await send(`${path}&format=text`)).text(), language);
    $("letter-record").disabled = missing.length > 0;
    if (missing.length > 0) fill("letter-said", h("p.note.bad", {}, `This is a draft. Not set: ${missing.join(", ")}.`));
  } catch (problem) {
    letterText("", language);
    fill("letter-said", problemNote(problem));
  }
}

/** @param {string} text @param {string} language */
function letterText(text, language) {
  fill("letter-text", text);
  $("letter-text").lang = language;
  $("letter-text").scrollTop = 0;
}

/** Record the letter as sent to who is entered, and show it as it was recorded. */
export async function recordLetter() {
  const button = $("letter-record");
  const lines = $("letter-to").value.split("\n").map((/** @type {string} */ line) => line.trim());
  const body = {
    channel: $("letter-channel").value,
    addressee: lines.filter(Boolean),
    language: $("letter-language").value,
  };
  button.disabled = true;
  try {
    const letter = await fetchJson(`recourse/${shown.id}/notice`, { body });
    letterText(letter.text, letter.language);
    shown.page = `recourse/${shown.id}/letters/${letter.id}?format=html`;
    const said = `Recorded as sent ${CHANNELS[letter.channel]}, ${formatTime(letter.sent_at)}. Print what is shown now.`;
    fill("letter-said", h("p.note", {}, said));
    shown.onSent();
  } catch (problem) {
    fill("letter-said", problemNote(problem));
    button.disabled = false;
  }
}

/** Print the letter that is shown: as its own page, or as text where a page of its own could not send the key. */
export function printLetter() {
  if (storedKey()) print();
  else open(shown.page, "_blank", "noopener");
}
