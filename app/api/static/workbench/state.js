// @ts-check
/** What the page holds now, and what is chosen on it. */

import { $ } from "./dom.js";

/** @import { Applicant, Asked, Curve, Feature, Method, Model, Wish } from "./types.d.ts" */

export const state = {
  /** @type {Model[]} */ models: [],
  /** @type {Method[]} */ methods: [],
  /** @type {Feature[]} of the chosen model */ features: [],
  /** @type {Applicant[]} example applicants of the chosen model, the next one first */ samples: [],
  /** @type {Applicant} the record in the form with what follows from it, once known */ whole: {},
  /** share of the future models that an answer is asked for */ share: 0,
  /** @type {Wish[]} what the person rules out, or will do anyway */ wishes: [],
  /** @type {any} the latest answer */ answer: null,
  /** @type {Asked | null} the request behind it */ asked: null,
  /** @type {Curve | null} the frontier that is shown */ curve: null,
};

/** @param {{id: string, version: string}} model @returns {string} as the API names it */
export const fullName = ({ id, version }) => `${id}@${version}`;

export const chosenModel = () =>
  /** @type {Model} */ (state.models.find((model) => fullName(model) === $("model").value));

export const chosenMethod = () =>
  /** @type {Method} */ (state.methods.find((method) => method.name === $("method").value));

/** The features of a record that is sent: the service computes the others. */
export const baseFeatures = () => state.features.filter((feature) => feature.derived === null);

/** The features that the service computes. */
export const derivedFeatures = () => state.features.filter((feature) => feature.derived !== null);

/** @param {string | null} name @returns {Feature | undefined} */
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
