/** What the person rules out, and what they will do anyway: buttons on each change, and chips above the answer. */

import { checkTyped } from "./applicant.js";
import { $, button, fill, h } from "./dom.js";
import { formatValue } from "./format.js";
import { featureNamed, state } from "./state.js";

/** The wishes as parts of a request; none where there are none. */
export const wishesRequest = () =>
  state.wishes.length > 0 && {
    exclude: {
      features: wishesOf("feature").map(({ feature }) => feature),
      changes: wishesOf("change").map(changeTo),
    },
    must_include: wishesOf("must").map(changeTo),
  };

const wishesOf = (kind) => state.wishes.filter((wish) => wish.kind === kind);

const changeTo = ({ feature, to }) => ({ feature, to });

/** Add a wish in place of those that it replaces. */
export function addWish(wish) {
  const numeric = featureNamed(wish.feature)?.categories == null;
  const replaced = (old) =>
    old.feature === wish.feature && (wish.kind !== "change" || old.kind !== "change" || numeric || old.to === wish.to);
  state.wishes = [...state.wishes.filter((old) => !replaced(old)), wish];
}

/** Remove what the request excludes or includes of a feature; null for all features. */
export function removeWishes(part, name) {
  const inPart = ({ kind }) => (kind === "must") === (part === "must_include");
  state.wishes = state.wishes.filter((wish) => !inPart(wish) || (name !== null && wish.feature !== name));
}

/** Buttons of a change: it cannot be made, or will be made anyway. @param change of an answer */
export function wishButtons({ feature: name, from, to, text }, onWish) {
  const feature = featureNamed(name);
  if (!feature) return null;
  const sentence = text.replace(/\.$/, "");
  const wishButton = (words, rest, about, wish) =>
    button(words, () => onWish(wish), { class: "wish", "aria-label": `${words}${rest}: ${about}` });
  const pinned = state.wishes.some((wish) => wish.kind === "must" && wish.feature === name);
  // Of a feature with two values, this change is the only one.
  const kind = feature.type === "binary" ? "feature" : "change";
  const change = { kind, feature: name, from, to };
  const tooFar = { ...change, to: tooFarFrom(feature, from, to) };
  return h(
    "div.wish-row",
    wishButton("Can’t", " do this", sentence, tooFar),
    change.kind === "change" && wishButton("Leave it", " as it is", feature.label, { ...change, kind: "feature" }),
    !pinned && wishButton("Will do", " it", sentence, { ...change, kind: "must" }),
  );
}

/**
 * Where "too far" begins for who cannot make a change: at the first number that is nearer to it than to their own, as
 * the one next to it would be no answer. Other values are themselves.
 */
function tooFarFrom(feature, from, to) {
  if (feature.categories || typeof from !== "number" || typeof to !== "number") return to;
  const step = feature.step ?? (feature.type === "integer" ? 1 : 10 ** -(feature.decimals ?? 2));
  const steps = Math.floor(Math.abs(to - from) / step / 2 + 1e-9) + 1;
  const number = from + Math.sign(to - from) * steps * step;
  return Math.abs(number - from) < Math.abs(to - from) ? Number(number.toPrecision(12)) : to;
}

/** Show what is ruled out or included so far. @param onChange called when a wish was changed or removed */
export function showWishes(onChange) {
  const group = (title, wishes) =>
    wishes.length > 0 &&
    h(
      "div.chips",
      { role: "group", "aria-label": title },
      h("b", `${title}:`),
      ...wishes.map((wish) => chip(wish, onChange)),
    );
  fill(
    "wishes",
    group("Ruled out", [...wishesOf("feature"), ...wishesOf("change")]),
    group("Will be done anyway", wishesOf("must")),
  );
}

function chip(wish, onChange) {
  const feature = featureNamed(wish.feature);
  const remove = () => {
    state.wishes = state.wishes.filter((one) => one !== wish);
    onChange();
  };
  const typed = wish.kind === "change" && typeof wish.to === "number";
  const words = typed ? `${feature.label}: not` : wishText(feature, wish);
  return h(
    "span.chip",
    h("span", words),
    typed && limitInput(feature, wish, onChange),
    typed && h("span", `${feature.unit ?? ""} ${beyond(wish)}`),
    button("×", remove, { "aria-label": `Remove: ${wishText(feature, wish)}` }),
  );
}

/** How far the person cannot go, to be corrected. */
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

/** The side of a number on which everything is too far. */
const beyond = ({ from, to }) => (typeof from === "number" && Number(to) < from ? "or less" : "or more");

function wishText(feature, wish) {
  const { kind, to } = wish;
  const value = formatValue(feature, to);
  if (kind === "feature") return `${feature.label}: no change`;
  if (kind === "must") return `${feature.label}: ${value}`;
  if (!feature.categories) return `${feature.label}: not ${value} ${beyond(wish)}`;
  return `${feature.label}: not ${value}${feature.type === "ordinal" ? ", nor beyond" : ""}`;
}

export function clearWishes() {
  state.wishes = [];
  $("wishes").replaceChildren();
}
