/** Store an answer, then send it as a letter. */

import { button, h, labelled, later } from "./dom.js";
import { guarded, submit } from "./jobs.js";

/** A form that stores an answer; null if it is stored already. @param asked the request behind it */
export function storeForm(answer, asked) {
  if (answer.stored) return null;
  const reference = h("input", { id: "store-as", maxlength: 200, autocomplete: "off", placeholder: "such as A-81723" });
  const place = h("div");
  const pressed = h("button", "Store");
  const store = async () => {
    const body = { ...asked.body, store: true, reference: reference.value.trim() || null };
    const stored = await submit("recourse", body, place, { background: asked.background });
    if (stored === null) return;
    const note = storedNote(stored, stored.status === answer.status);
    form.replaceWith(note);
    note.focus();
    later("ledger", "findStored")();
  };
  const form = h(
    "form.row",
    { id: "store", onsubmit: (event) => (event.preventDefault(), guarded(pressed, place, store)) },
    h("h4", "Store it, then send it as a letter"),
    labelled("Reference of the case", reference),
    pressed,
    place,
  );
  return form;
}

/** @param same whether it is the answer on the page */
const storedNote = ({ id, status }, same) =>
  h(
    "div.note",
    { role: "status", tabindex: -1 },
    h(
      "p",
      same ? "Stored as " : "The service gave a different answer this time, not the one above. It is stored as ",
      h("code", id),
      ". You can find it under ",
      h("a", { href: "#promises" }, "Cases"),
      status === "found" ? ", and check it against other versions of the model." : ".",
    ),
    h("div.row", button("Letter", () => later("case", "openLetter")(id), { class: "primary" })),
  );
