/** The model's decision on the applicant, and what follows from the record, as you type. */

import { fetchJson, isAborted } from "./api.js";
import { applicant, faultText, faultyFeatures } from "./applicant.js";
import { $, debounce, fill, h } from "./dom.js";
import { chanceInHundred, counted, digitsApart, formatValue, rating, readable } from "./format.js";
import { problemNote } from "./jobs.js";
import { baseFeatures, derivedFeatures, pointsNeeded, state, threshold } from "./state.js";

let pending = new AbortController();

export async function decide() {
  pending.abort();
  const { signal } = (pending = new AbortController());
  const faulty = faultyFeatures().length;
  if (faulty > 0) {
    const empty = faulty === baseFeatures().length;
    showDerived({});
    fill("verdict", empty ? "Fill in the applicant, or start with an example." : faultText(faulty));
    fill("scale");
    return;
  }
  try {
    const path = `models/${encodeURIComponent($("model").value)}/predict`;
    const record = applicant();
    const { predictions, derived } = await fetchJson(path, { body: { records: [record] }, signal });
    showDerived({ ...record, ...derived[0] });
    fill("verdict", ...verdict(predictions[0]));
    fill("scale", scale(predictions[0].probability));
  } catch (problem) {
    if (!isAborted(problem)) fill("verdict", problemNote(problem));
  }
}

/** @param whole a record with its derived features; empty where it is not complete */
function showDerived(whole) {
  state.whole = whole;
  for (const feature of derivedFeatures()) {
    const value = whole[feature.name];
    $(`f-${feature.name}`).textContent = value === undefined ? "" : formatValue({ ...feature, unit: null }, value);
  }
}

export const decideSoon = debounce(decide, 150);

function verdict({ favourable, probability, points }) {
  const at = threshold();
  const needed = at === null ? "" : `; a yes needs ${(100 * at).toFixed(digitsApart(probability ?? at, at))}`;
  const predicted =
    probability !== null &&
    `${readable(chanceInHundred(probability, at))} is the predicted chance of a good outcome${needed}.`;
  const given = points !== null && `It gives ${counted(points, "point")}; a yes needs ${pointsNeeded()}. `;
  return ["The model says ", outcome(favourable), ". ", h("span.hint", given, predicted)];
}

export const outcome = (good, yes = "yes", no = "no") => h(good ? "b.yes" : "b.no", good ? yes : no);

export const chance = (decision) => rating(decision, threshold()) ?? (decision.favourable ? "yes" : "no");

/** A chance on a scale from 0 to 1, with the threshold. */
export function scale(share) {
  if (share === null) return null;
  const at = threshold();
  return h(
    "div.bar",
    { style: { "--to": `${100 * share}%` } },
    h("i"),
    at !== null && h("span", { style: { "--at": `${100 * at}%` } }),
  );
}
