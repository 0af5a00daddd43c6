// @ts-check
/** A way as a path: what to change, and where each change moves the model's probability or points, from the no to the yes. */

import { outcome } from "./decision.js";
import { h } from "./dom.js";
import { digitsApart, formatMonths, rating } from "./format.js";
import { chosenModel, featureNamed, pointsNeeded, threshold } from "./state.js";
import { wishButtons } from "./wishes.js";

/** @import { Wish } from "./types.d.ts" */

/** What only time changes. @param {any} change */
export const passes = ({ feature }) => (featureNamed(feature)?.moves_with_time ?? null) !== null;

/** The changes of a record that was only tried. @param {any[]} changes */
export const changeList = (changes) => h("ol.changes", {}, ...changes.map(({ text }) => h("li", {}, text)));

/**
 * The changes in the order in which each helps most, each with the decision after it where that is known.
 * @param {any} counterfactual @param {any} factual the decision on the applicant now
 * @param {((wish: Wish) => void) | null} onWish where the person rules out a change; null for no such buttons
 */
export function path({ changes, steps, validity }, factual, onWish = null) {
  const at = threshold();
  const own = changes.filter((/** @type {any} */ change) => !passes(change));
  const after = decisions(own, steps, validity.current);
  const order = after.length > 0 ? after.map(({ change }) => change) : own;
  const before = [factual, ...after.map(({ decision }) => decision)];
  return h(
    "div.path",
    { style: at === null ? {} : { "--at": `${100 * at}%` } },
    rating(factual) !== null && start(factual, at),
    h(
      "ol.changes",
      {},
      ...order.map((/** @type {any} */ change, /** @type {number} */ i) =>
        item(change, after[i]?.decision, before[i], onWish),
      ),
    ),
    ...(after.length === 0 ? ending(validity.current, factual) : []),
    ...changes.filter(passes).map((/** @type {any} */ { text }) => h("p.hint", {}, `By itself: ${text}`)),
  );
}

/**
 * Each change with the decision after it; empty where that is not known of all.
 * @param {any[]} changes @param {any[] | null} steps @param {any} end the decision after all of them
 * @returns {{change: any, decision: any}[]}
 */
function decisions(changes, steps, end) {
  if (changes.length === 1) return [{ change: changes[0], decision: end }];
  const found = (steps ?? []).map((decision) => ({
    decision,
    change: changes.find(({ feature }) => feature === decision.feature),
  }));
  const known = found.filter(({ change }) => change);
  return known.length === changes.length ? known : [];
}

/** Where the path begins. @param {any} factual @param {number | null} at the threshold */
const start = (factual, at) =>
  h(
    "div.leg-start",
    {},
    h("span", {}, "Now ", h("b", {}, rating(factual, at)), h("span.unseen", {}, ", ")),
    at !== null && h("span.from", {}, `yes from ${(100 * at).toFixed(digitsApart(factual.probability ?? at, at))}`),
    chosenModel().output === "points" && h("span.from", {}, `yes with ${pointsNeeded()}`),
    factual.probability !== null && rail(factual, factual),
  );

/**
 * One change, and the decision after it.
 * @param {any} change @param {any} decision undefined where it is not known @param {any} before
 * @param {((wish: Wish) => void) | null} onWish
 */
function item({ text, takes_months: months, ...change }, decision, before, onWish) {
  return h(
    "li",
    {},
    text,
    months > 0 && h("small.hint", {}, ` takes about ${formatMonths(months)}`),
    ...(decision ? ending(decision, before) : []),
    onWish && wishButtons({ ...change, text }, onWish),
  );
}

/** Where changes lead. @param {any} decision after them @param {any} before */
const ending = (decision, before) => [
  decision.probability !== null && rail(before, decision),
  h(
    "p.after",
    {},
    "Then ",
    rating(decision) !== null && h("b", {}, rating(decision, threshold()), ", "),
    outcome(decision.favourable),
  ),
];

/** The move on the probability axis. @param {any} before @param {any} after decisions */
function rail(before, after) {
  const [from, to] = [before.probability, after.probability];
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  const style = {
    "--from": `${100 * low}%`,
    "--to": `${100 * high}%`,
    "--start": `${100 * from}%`,
    "--end": `${100 * to}%`,
  };
  return h(after.favourable ? "span.rail.yes" : "span.rail", { "aria-hidden": "true", style }, h("i"), h("b"));
}
