// @ts-check
/** A plan: several counterfactuals side by side, and the bound for all of them together. */

import { fetchJson } from "./api.js";
import { estimateText, invalidationRate } from "./certificate.js";
import { counterfactualParts } from "./counterfactual.js";
import { chance } from "./decision.js";
import { $, h } from "./dom.js";
import { counted, formatMonths, formatShort, formatValue, inHundred, lowerBound, readable, upperBound } from "./format.js";
import { countOf, futureNoun, futureSource, futureText, readyFutures } from "./future.js";
import { runJob } from "./jobs.js";
import { problemNote } from "./problem.js";
import { featureNamed } from "./state.js";

/** @import { Feature } from "./types.d.ts" */

/** @param {any} answer with several counterfactuals */
export function planParts({ plan, counterfactuals, factual }) {
  const details = counterfactuals.map((/** @type {any} */ way) =>
    h(
      "details",
      {},
      h("summary", {}, `Way ${way.rank} in words`),
      h("div.way", {}, ...counterfactualParts(way, factual)),
    ),
  );
  return [
    h("h3", {}, `${counted(counterfactuals.length, "way")} to a yes`),
    comparison(counterfactuals, factual),
    plan && jointBound(plan, counterfactuals),
    ...details,
  ];
}

/** The ways as columns of a table. @param {any[]} ways @param {any} factual */
function comparison(ways, factual) {
  const heads = ["What changes", "Now", ...ways.map((way) => `Way ${way.rank}`)];
  const table = h(
    "table.ways-table",
    {},
    h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, ...changeRows(ways)),
    h("tbody.measures", {}, ...measureRows(ways, factual)),
  );
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": "The ways side by side" }, table);
}

/** @param {any[]} ways @returns a row for each feature that changes in any of them */
function changeRows(ways) {
  const names = new Set(ways.flatMap((way) => way.changes.map((/** @type {any} */ change) => change.feature)));
  return [...names].map((name) => {
    const feature = /** @type {Feature} */ (featureNamed(name));
    const changeOf = (/** @type {any} */ way) =>
      way.changes.find((/** @type {any} */ change) => change.feature === name);
    const before = formatValue(feature, ways.map(changeOf).find(Boolean).from);
    const cell = (/** @type {any} */ way) =>
      changeOf(way) ? h("b", {}, formatValue(feature, changeOf(way).to)) : "as now";
    return row(feature.label, before, ways.map(cell));
  });
}

/** @param {any[]} ways @param {any} factual */
function measureRows(ways, factual) {
  const bound = (/** @type {any} */ { validity: { shift } }) => (shift ? lowerBound(shift.gelbrich.lower) : "unknown");
  const refused = (/** @type {any} */ { validity: { noise } }) => {
    const rate = noise && invalidationRate(noise);
    return typeof rate === "number" ? inHundred(rate) : "unknown";
  };
  const { future } = ways[0].validity;
  const kept = (/** @type {any} */ way) => countOf(way.validity.future.probability, way.validity.future.models);
  return [
    row(
      "Predicted chance of a good outcome",
      chance(factual),
      ways.map((way) => chance(way.validity.current)),
    ),
    ...(future ? [row(`${readable(futureNoun(future.source))} that say yes`, "", ways.map(kept))] : []),
    row("Worst-case bound under shift", "", ways.map(bound)),
    row("Refused under noise", "", ways.map(refused)),
    ...(ways.some((way) => way.takes_months > 0)
      ? [row("Takes about", "", ways.map((way) => formatMonths(way.takes_months)))]
      : []),
    row(
      "Cost",
      "",
      ways.map((way) => formatShort(way.cost.total)),
    ),
  ];
}

/** @param {string} label @param {string} before @param {any[]} cells */
const row = (label, before, cells) =>
  h("tr", {}, h("th", { scope: "row" }, label), ...[before, ...cells].map((cell) => h("td", {}, cell)));

/** What is known about all members together. @param {any} plan @param {any[]} members */
function jointBound({ validity: { lower, upper, exact, future } }, members) {
  const { shift } = members[0].validity;
  const estimate = shift ? estimateText(shift) : "estimated";
  const text = `Worst-case bound under shift for all ${members.length} at once (${estimate}): ${lowerBound(lower)}`;
  return h(
    "div.note",
    { id: "together" },
    h("p", {}, h("b", {}, "All ways together")),
    future && jointFuture(future, members.length),
    h("p", {}, exact ? `${text}. This bound is exact.` : `${text}. The exact bound is at most ${upperBound(upper)}.`),
    h("div", { id: "bounds-job" }),
  );
}

/** @param {any} future of a plan @param {number} members */
function jointFuture({ all, all_interval: interval, any, ...future }, members) {
  const every = { ...future, probability: all, interval };
  const say = futureText(every, readyFutures()?.agreement ?? null, ` to all ${members} at once`);
  const some = `${countOf(any, future.models)} say yes to at least one.`;
  return h("p", {}, `${say} ${some}`, h("small.hint", {}, ` ${futureSource(every)}`));
}

/** Show the exact bound of the plan on the page once its job has computed it. @param {string} job address of the job */
export async function followBounds(job) {
  // Another answer may be on the page by then.
  const shown = $("together");
  const place = $("bounds-job");
  try {
    const result = await runJob(await fetchJson(job), place);
    if (result?.plan && shown.isConnected) shown.replaceWith(jointBound(result.plan, result.counterfactuals));
  } catch (problem) {
    place.replaceChildren(problemNote(problem));
  }
}
