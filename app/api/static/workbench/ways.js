/**
 * Ways to a yes as cards side by side. Each says how sure it is, what to change, where each change moves the model's
 * probability or points from the no to the yes, its effort, and what sets it apart from those before it.
 */

import { outcome } from "./decision.js";
import { h, later } from "./dom.js";
import { counted, digitsApart, formatMonths, formatShort, formatValue, rating } from "./format.js";
import { promise } from "./promise.js";
import { baseFeatures, chosenModel, derivedFeatures, featureNamed, pointsNeeded, state, threshold } from "./state.js";
import { wishButtons } from "./wishes.js";

/** What only time changes. */
const passes = ({ feature }) => (featureNamed(feature)?.moves_with_time ?? null) !== null;

/** The changes of a record that was only tried. */
export const changeList = (changes) => h("ol.changes", ...changes.map(({ text }) => h("li", text)));

/**
 * The changes in the order in which each helps most, each with the decision after it where that is known.
 * @param factual the decision on the applicant now
 * @param onWish where the person rules out a change; null for no such buttons
 */
function path({ changes, steps, validity }, factual, onWish = null) {
  const at = threshold();
  const own = changes.filter((change) => !passes(change));
  const after = decisions(own, steps, validity.current);
  const order = after.length > 0 ? after.map(({ change }) => change) : own;
  const before = [factual, ...after.map(({ decision }) => decision)];
  return h(
    "div.path",
    { style: at === null ? {} : { "--at": `${100 * at}%` } },
    rating(factual) !== null && start(factual, at),
    h("ol.changes", ...order.map((change, i) => item(change, after[i]?.decision, before[i], onWish))),
    ...(after.length === 0 ? ending(validity.current, factual) : []),
    ...changes.filter(passes).map(({ text }) => h("p.hint", `By itself: ${text}`)),
  );
}

/**
 * Each change with the decision after it; empty where that is not known of all.
 * @param end the decision after all of them
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

/** Where the path begins. @param at the threshold */
const start = (factual, at) =>
  h(
    "div.leg-start",
    h("span", "Now ", h("b", rating(factual, at)), h("span.unseen", ", ")),
    at !== null && h("span.from", `yes from ${(100 * at).toFixed(digitsApart(factual.probability ?? at, at))}`),
    chosenModel().output === "points" && h("span.from", `yes with ${pointsNeeded()}`),
    factual.probability !== null && rail(factual, factual),
  );

/** One change, and the decision after it. @param decision undefined where it is not known */
function item({ text, takes_months: months, ...change }, decision, before, onWish) {
  return h(
    "li",
    text,
    months > 0 && h("small.hint", ` Takes about ${formatMonths(months)}.`),
    ...(decision ? ending(decision, before) : []),
    onWish && wishButtons({ ...change, text }, onWish),
  );
}

/** Where changes lead. @param decision after them */
const ending = (decision, before) => [
  decision.probability !== null && rail(before, decision),
  h(
    "p.after",
    "Then ",
    rating(decision) !== null && h("b", rating(decision, threshold()), ", "),
    outcome(decision.favourable),
  ),
];

/** The move on the probability axis. @param after decisions */
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

/**
 * The parts of one counterfactual, always as many, so that they line up where several stand side by side.
 * @param factual the decision on the applicant now
 * @param onWish where the person rules out a change; null for no such buttons
 */
export function wayParts(counterfactual, factual, onWish = null) {
  const { takes_months: months, validity } = counterfactual;
  return [
    h("div.part", promise(validity.future)),
    h(
      "div.part",
      path(counterfactual, factual, onWish),
      followList(counterfactual),
      months > 0 && h("p.takes", `It takes about ${formatMonths(months)}.`),
    ),
    specialistsPart(counterfactual),
  ];
}

/** The certificate, which comes when it is unfolded. */
function specialistsPart(counterfactual) {
  const place = h("div");
  const show = later("certificate", "certificate");
  const ontoggle = async () => place.firstChild ?? place.replaceChildren(await show(counterfactual));
  const cost = `Cost: ${formatShort(counterfactual.cost.total)}. The sum of all changes, in how far apart people are, `;
  return h(
    "details.specialists.part",
    { ontoggle },
    h("summary", "For specialists"),
    place,
    h("p.hint", `${cost}with the lender’s weights; a change of category counts 1.`),
  );
}

/** The features that the person changes. */
const changedFeatures = (changes) => changes.filter((change) => !passes(change)).map(({ feature }) => feature);

/** How many changes the person makes. */
export const changeCount = (changes) => counted(changedFeatures(changes).length, "change");

/** Derived features that become others with the record in the form. */
function followList({ applicant, changes }) {
  const { whole } = state;
  const before = { ...applicant };
  for (const { feature, from } of changes) before[feature] = from;
  if (baseFeatures().some(({ name }) => whole[name] !== before[name])) return null;
  const changed = derivedFeatures().filter(({ name }) => whole[name] !== applicant[name]);
  const items = changed.map((feature) => {
    const [from, to] = [whole, applicant].map(({ [feature.name]: value }) => formatValue(feature, value));
    return h("li", `${feature.label}: from ${from} to ${to}`);
  });
  return items.length > 0 && h("div", h("p", "What follows from it:"), h("ul.follows", ...items));
}

/** The ways of an answer in its order, but the least effort first of a plan, whose members have another order. */
function ordered({ method, counterfactuals }) {
  const isPlan = state.methods.some(({ name, yields }) => name === method.name && yields === "plan");
  return isPlan ? [...counterfactuals].sort((a, b) => a.cost.total - b.cost.total) : counterfactuals;
}

/** @param answer with counterfactuals @param onWish null for no such buttons */
export function wayCards(answer, onWish = null) {
  const ways = ordered(answer);
  const least = Math.min(...ways.map(({ cost }) => cost.total));
  const cardOf = (way, i) => card(way, ways.slice(0, i), least, answer.factual, onWish);
  return h("div.cards", ...ways.map(cardOf));
}

export function waysTitle({ counterfactuals: ways }) {
  const several = ways.length > 1;
  return [
    h("h3", several ? `${counted(ways.length, "way")} to a yes` : `${changeCount(ways[0].changes)} to a yes`),
    h("p.hint", several && "Each is enough by itself. ", "The model itself has confirmed what is shown."),
  ];
}

export function waysParts(answer, onWish) {
  const bounds = h("div");
  if (answer.plan) later("certificate", "showBounds")(bounds, answer.plan, ordered(answer));
  return [wayCards(answer, onWish), bounds];
}

/** @param before those that are shown before it @param least cost of any way */
function card(way, before, least, factual, onWish) {
  const number = before.length + 1;
  const id = `way-${number}${onWish ? "" : "-stored"}`;
  return h(
    "article.card",
    { "aria-labelledby": id, style: { "--order": String(number) } },
    h("h4.part", { id }, `Way ${number}`, h("span.unseen", ", "), effort(way.cost.total, least)),
    h("p.part.apart", `${changeCount(way.changes)}${before.length === 0 ? "" : `. ${differenceText(way, before)}`}`),
    ...wayParts(way, factual, onWish),
  );
}

/** How much effort a way takes, against the one that takes the least. */
function effort(cost, least) {
  const times = least > 0 ? formatShort(Number((cost / least).toPrecision(2))) : null;
  if (cost === least) return h("span.effort.least", "least effort");
  return times !== null && h("span.effort", times === "1" ? "same effort" : `${times} × the effort`);
}

/** What sets a way apart from the most similar one before it. */
function differenceText(way, before) {
  const own = changedFeatures(way.changes);
  const others = before.map(({ changes }) => changedFeatures(changes));
  const shared = others.map((names) => names.filter((name) => own.includes(name)).length);
  const k = shared.indexOf(Math.max(...shared));
  const added = labels(own.filter((name) => !others[k].includes(name)));
  const left = labels(others[k].filter((name) => !own.includes(name)));
  if (shared[k] === 0) return `Nothing in common with ${before.length === 1 ? "way 1" : "the ways before"}`;
  if (added && left) return `Unlike way ${k + 1}: ${added}, not ${left}`;
  if (added) return `As way ${k + 1}, and ${added}`;
  return left ? `As way ${k + 1}, without ${left}` : `As way ${k + 1}, to other values`;
}

const labels = (names) => names.map((name) => `“${featureNamed(name)?.label ?? name}”`).join(", ");
