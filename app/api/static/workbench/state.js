/** What the page holds now, and what is chosen on it. */

import { $ } from "./dom.js";
import { inHundred } from "./format.js";

export const state = {
  models: [],
  methods: [],
  /** of the chosen model */ features: [],
  /** example applicants of the chosen model, the next one first */ samples: [],
  /** the record in the form with what follows from it, once known */ whole: {},
  /** share of the future models that an answer is asked for */ share: 0,
  /** what the person rules out, or will do anyway */ wishes: [],
  /** the latest answer */ answer: null,
  /** the request behind it */ asked: null,
  /** the frontier that is shown */ curve: null,
};

export const fullName = ({ id, version }) => `${id}@${version}`;

export const chosenModel = () => state.models.find((model) => fullName(model) === $("model").value);

export const chosenMethod = () => state.methods.find((method) => method.name === $("method").value);

/** The features of a record that is sent: the service computes the others. */
export const baseFeatures = () => state.features.filter((feature) => feature.derived === null);

/** The features that the service computes. */
export const derivedFeatures = () => state.features.filter((feature) => feature.derived !== null);

export const featureNamed = (name) => state.features.find((feature) => feature.name === name);

/** How many points a yes needs, of a model that gives points. */
export function pointsNeeded() {
  const { better, threshold: at } = chosenModel();
  return better === "lower" ? `${at} or fewer` : `${at} or more`;
}

/** The least favourable probability for a yes; null where it is not known, as of a model that gives points. */
export function threshold() {
  const { output, threshold: at } = chosenModel();
  if (at === null || output === "label" || output === "points") return null;
  return output === "logit" ? 1 / (1 + Math.exp(-at)) : at;
}

// --- future models in words: what they are, and how many of them say yes ---

/** The parameter of a request that asks for a share of them. */
export const FUTURE_VALIDITY = "future_validity";

const NOUNS = {
  retrained: "retrained models",
  command: "retrained models",
  supplied: "supplied models",
  stand_in: "stand-in models",
};

export const futureNoun = (source = readyFutures()?.source) => NOUNS[source] ?? "future models";

/** @returns those of the chosen model; null unless they are ready */
export function readyFutures() {
  const { futures } = chosenModel();
  return futures.status === "ready" ? futures : null;
}

/** What the answer was to withstand, and which models this is measured with. */
export function futureSource({ asked, source }) {
  const search = asked === null ? "" : `; it required a yes from ${inHundred(asked)} other ${futureNoun(source)}`;
  return `None of these models took part in the search${search}.`;
}

/** What a stress is about. */
export function stressName({ column, direction }) {
  const up = direction === "up";
  if (column === "@score") return up ? "stronger applicants" : "weaker applicants";
  if (column === "@answers") return "people who follow such advice and fail";
  if (column === "@label") return up ? "good outcomes" : "bad outcomes";
  return `${up ? "high" : "low"} values of ${column.replaceAll("_", " ")}`;
}
