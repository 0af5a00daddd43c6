// @ts-check
/** What the lender could offer: the terms with which the model accepts the applicant as they are. */

import { fetchJson } from "./api.js";
import { promise } from "./certificate.js";
import { h, scrollingTable } from "./dom.js";
import { formatValue, readable } from "./format.js";
import { countOf, futureNoun, readyFutures } from "./future.js";
import { problemNote } from "./problem.js";
import { offersRequest } from "./request.js";
import { featureNamed } from "./state.js";

const TABLE = { label: "Terms that the model accepts", caption: "Terms with which the model says yes, the best first" };

/** The best offer of an answer, and a button for all. @param {any} answer @param {any} body of its request */
export function offerPart({ offer }, body) {
  if (!offer) return null;
  const place = h("div");
  const show = async () => {
    const path = "recourse/offers";
    try {
      place.replaceChildren(...offersTable(await fetchJson(path, { method: "POST", body: offersRequest(body) })));
    } catch (/** @type {any} */ problem) {
      place.replaceChildren(problemNote(problem));
    }
  };
  return h(
    "section.note",
    { id: "offer", "aria-labelledby": "offer-title" },
    h("h4", { id: "offer-title" }, "Other terms would do, with nothing else changed"),
    h("p", {}, offer.text),
    promise(offer.future, readyFutures()?.agreement ?? null),
    h("button", { type: "button", id: "offers", onclick: show }, "Show all terms"),
    place,
  );
}

/** @param {any} answer of `POST /recourse/offers` */
function offersTable({ offers, detail, warnings }) {
  if (offers.length === 0) return [h("p", {}, detail)];
  const names = Object.keys(offers[0].terms);
  const features = names.map((name) => /** @type {any} */ (featureNamed(name)));
  const future = offers[0].future;
  const sure = future && `${readable(futureNoun(future.source))} that say yes if applicants stay as they are`;
  const heads = [...features.map(({ label }) => label), ...(future ? [sure] : [])];
  const rows = offers.map((/** @type {any} */ one) => [
    ...features.map((feature) => formatValue(feature, one.terms[feature.name])),
    ...(future ? [countOf(one.future.probability, one.future.models)] : []),
  ]);
  const cells = rows.map((/** @type {string[]} */ row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))));
  return [
    scrollingTable("table", TABLE, heads, cells),
    ...warnings.map((/** @type {string} */ text) => h("p.hint", {}, text)),
  ];
}
