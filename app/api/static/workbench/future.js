// @ts-check
/** Future models in words: what they are, and how many of them say yes. */

import { inHundred } from "./format.js";
import { chosenModel } from "./state.js";

/** @import { FutureCertificate, Futures } from "./types.d.ts" */

/** The parameter of a request that asks for a share of them. */
export const FUTURE_VALIDITY = "future_validity";

const NOUNS = {
  retrained: "retrained models",
  command: "retrained models",
  supplied: "supplied models",
  stand_in: "stand-in models",
};

/** @param {string | null} source @returns {string} */
export const futureNoun = (source) => NOUNS[/** @type {"retrained"} */ (source)] ?? "future models";

/** @returns {Futures | null} those of the chosen model; null unless they are ready */
export function readyFutures() {
  const { futures } = chosenModel();
  return futures.status === "ready" ? futures : null;
}

/** @param {number} share @param {number} models @returns {string} such as `57 of 60` */
export const countOf = (share, models) => `${Math.round(share * models)} of ${models}`;

/** What the answer was to withstand, and which models this is measured with. @param {FutureCertificate} future */
export function futureSource({ asked, source }) {
  const search = asked === null ? "" : `; it required a yes from ${inHundred(asked)} other ${futureNoun(source)}`;
  return `None of these models took part in the search${search}.`;
}

/** What a stress is about. @param {{ column: string, direction: "up" | "down" }} stress */
export function stressName({ column, direction }) {
  const up = direction === "up";
  if (column === "@score") return up ? "stronger applicants" : "weaker applicants";
  if (column === "@label") return up ? "good outcomes" : "bad outcomes";
  return `${up ? "high" : "low"} values of ${column.replaceAll("_", " ")}`;
}
