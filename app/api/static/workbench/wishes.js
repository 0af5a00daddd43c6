// @ts-check
/** What the person rules out, and what they will do anyway: buttons on each change, and chips above the answer. */

import { $, fill, h } from "./dom.js";
import { track } from "./feature.js";
import { formatValue } from "./format.js";
import { featureNamed, state } from "./state.js";
import { checkTyped } from "./typed.js";

/** @import { Feature, Value, Wish } from "./types.d.ts" */

/** The wishes as parts of a request; none where there are none. */
export const wishesRequest = () =>
  state.wishes.length > 0 && {
    exclude: {
      features: wishesOf("feature").map(({ feature }) => feature),
      changes: wishesOf("change").map(changeTo),
    },
    must_include: wishesOf("must").map(changeTo),
  };

/** @param {Wish["kind"]} kind */
const wishesOf = (kind) => state.wishes.filter((wish) => wish.kind === kind);

/** @param {Wish} wish */
const changeTo = ({ feature, to }) => ({ feature, to });

/** Add a wish in place of those that it replaces. @param {Wish} wish */
export function addWish(wish) {
  const numeric = featureNamed(wish.feature)?.categories == null;
  const replaced = (/** @type {Wish} */ old) =>
    old.feature === wish.feature && (wish.kind !== "change" || old.kind !== "change" || numeric || old.to === wish.to);
  state.wishes = [...state.wishes.filter((old) => !replaced(old)), wish];
}

/**
 * Remove what the request excludes or includes of a feature; null for all features.
 * @param {"exclude" | "must_include"} part @param {string | null} name
 */
export function removeWishes(part, name) {
  const inPart = (/** @type {Wish} */ { kind }) => (kind === "must") === (part === "must_include");
  state.wishes = state.wishes.filter((wish) => !inPart(wish) || (name !== null && wish.feature !== name));
}

/**
 * Buttons of a change: it cannot be made, or will be made anyway.
 * @param {any} change of an answer @param {(wish: Wish) => void} onWish
 */
export function wishButtons({ feature: name, from, to, text }, onWish) {
  const feature = featureNamed(name);
  if (!feature) return null;
  const sentence = text.replace(/\.$/, "");
  const button = (/** @type {string[]} */ [words, more], /** @type {string} */ about, /** @type {Wish} */ wish) =>
    h(
      "button.wish",
      { type: "button", onclick: () => onWish(wish), title: words + more, "aria-label": `${words}${more}: ${about}` },
      words,
    );
  const pinned = state.wishes.some((wish) => wish.kind === "must" && wish.feature === name);
  // Of a feature with two values, this change is the only one.
  const kind = feature.type === "binary" ? "feature" : "change";
  const change = /** @type {Wish} */ ({ kind, feature: name, from, to });
  const tooFar = { ...change, to: tooFarFrom(feature, from, to) };
  return h(
    "div.wish-row",
    {},
    button(["Can’t", " do this"], sentence, tooFar),
    change.kind === "change" && button(["Leave it", " as it is"], feature.label, { ...change, kind: "feature" }),
    !pinned && button(["Will do", " it"], sentence, { ...change, kind: "must" }),
  );
}

/**
 * Where "too far" begins for who cannot make a change: at the first number that is nearer to it than to their own, as the
 * one next to it would be no answer. Other values are themselves.
 * @param {Feature} feature @param {Value} from @param {Value} to @returns {Value}
 */
function tooFarFrom(feature, from, to) {
  if (feature.categories || typeof from !== "number" || typeof to !== "number") return to;
  const step = feature.step ?? (feature.type === "integer" ? 1 : 10 ** -(feature.decimals ?? 2));
  const steps = Math.floor(Math.abs(to - from) / step / 2 + 1e-9) + 1;
  const number = from + Math.sign(to - from) * steps * step;
  return Math.abs(number - from) < Math.abs(to - from) ? Number(number.toPrecision(12)) : to;
}

/** Show what is ruled out or included so far. @param {() => void} onChange called when a wish was changed or removed */
export function showWishes(onChange) {
  const group = (/** @type {string} */ title, /** @type {Wish[]} */ wishes) =>
    wishes.length > 0 &&
    h(
      "div.chips",
      { role: "group", "aria-label": title },
      h("b", {}, `${title}:`),
      ...wishes.map((wish) => chip(wish, onChange)),
    );
  fill(
    "wishes",
    group("Ruled out", [...wishesOf("feature"), ...wishesOf("change")]),
    group("Will be done anyway", wishesOf("must")),
  );
}

/** @param {Wish} wish @param {() => void} onChange */
function chip(wish, onChange) {
  const feature = /** @type {Feature} */ (featureNamed(wish.feature));
  const remove = () => {
    state.wishes = state.wishes.filter((one) => one !== wish);
    onChange();
  };
  const typed = wish.kind === "change" && typeof wish.to === "number";
  const words = typed ? `${feature.label}: not` : wishText(feature, wish);
  return h(
    "span.chip",
    {},
    h("span", {}, words),
    typed && limitInput(feature, wish, onChange),
    typed && h("span", {}, `${feature.unit ?? ""} ${beyond(wish)}`),
    h("button", { type: "button", onclick: remove, "aria-label": `Remove: ${wishText(feature, wish)}` }, "×"),
  );
}

/**
 * How far the person cannot go, to be corrected.
 * @param {Feature} feature @param {Wish} wish @param {() => void} onChange
 */
function limitInput(feature, wish, onChange) {
  const input = h("input", {
    type: "number",
    min: feature.min,
    max: feature.max,
    step: "any",
    inputmode: "decimal",
    value: wish.to,
    title: "How far is too far? Type your own number.",
    "aria-label": `${feature.label}: too far from here on`,
    style: { "--digits": String(String(wish.to).length) },
  });
  input.onchange = () => {
    if (input.value === "" || input.validity.badInput) input.value = wish.to;
    if (checkTyped(input) && Number(input.value) !== wish.to) ((wish.to = Number(input.value)), onChange());
  };
  return input;
}

/** The side of a number on which everything is too far. @param {Wish} wish */
const beyond = ({ from, to }) => (typeof from === "number" && Number(to) < from ? "or less" : "or more");

/** @param {Feature} feature @param {Wish} wish @returns {string} */
function wishText(feature, wish) {
  const { kind, to } = wish;
  const value = formatValue(feature, /** @type {Value} */ (to));
  if (kind === "feature") return `${feature.label}: no change`;
  if (kind === "must") return `${feature.label}: ${value}`;
  if (!feature.categories) return `${feature.label}: not ${value} ${beyond(wish)}`;
  return `${feature.label}: not ${value}${track(feature) ? ", nor beyond" : ""}`;
}

/** Forget every wish: another person, or another model. */
export function clearWishes() {
  state.wishes = [];
  $("wishes").replaceChildren();
}
