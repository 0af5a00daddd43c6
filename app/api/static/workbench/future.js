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

/**
 * How many future models say yes, with its confidence interval, which may be about models of other records.
 * @param {FutureCertificate} future @param {number | null} agreement of stand-in models with the model, if it is known
 * @param {string} [what] they say yes to
 */
export function futureText({ probability, interval, models, source, records, measured }, agreement, what = "") {
  const agreeing = source === "stand_in" && agreement !== null;
  const which = agreeing ? `, which agree with this model on ${percent(agreement)} of records,` : "";
  const say = Math.round(probability * models) === 1 ? "says" : "say";
  const bound = !measured ? `; ${boundText(interval, records)}` : "";
  return `${countOf(probability, models)} ${futureNoun(source)}${which} ${say} yes${what}${bound}.`;
}

/**
 * The end of a 95% confidence interval that says more, and of which models it says that.
 * @param {[number, number]} interval @param {FutureCertificate["records"]} records
 */
function boundText([low, high], records) {
  const least = Math.floor(low * 100 + 1e-9);
  const bound = least > 0 ? `at least ${least}` : `at most ${Math.ceil(high * 100 - 1e-9)}`;
  const which = records === "fresh" ? "of models trained on new records, " : "";
  return `${which}with 95% certainty ${bound} in 100`;
}

/** What the answer was to withstand, and which models this is measured with. @param {FutureCertificate} future */
export function futureSource({ asked, source }) {
  const search = asked === null ? "" : `; it required a yes from ${inHundred(asked)} other ${futureNoun(source)}`;
  return `None of these models took part in the search${search}.`;
}

/** What later versions kept, where that is less than the future models say. @param {FutureCertificate} future */
export const measuredText = ({ measured }) =>
  measured ? `Of promises like this one, later versions kept ${inHundred(measured.share)}.` : "";

/** What a stress is about. @param {{ column: string, direction: "up" | "down" }} stress */
export function stressName({ column, direction }) {
  const up = direction === "up";
  if (column === "@score") return up ? "stronger applicants" : "weaker applicants";
  if (column === "@label") return up ? "good outcomes" : "bad outcomes";
  return `${up ? "high" : "low"} values of ${column}`;
}

/** What models of a stress say; empty where none was rehearsed. @param {FutureCertificate} future */
export function stressedText({ stressed, records }) {
  if (!stressed) return "";
  const { lowest, models, interval } = stressed;
  return `If ${stressName(stressed)} become more frequent, ${countOf(lowest, models)} say yes; ${boundText(interval, records)}.`;
}

/** @param {number} share from 0 to 1 */
const percent = (share) => `${Math.round(share * 100)}%`;
