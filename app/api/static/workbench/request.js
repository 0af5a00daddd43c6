// @ts-check
/** The form as the body of a request. */

import { applicant } from "./applicant.js";
import { $ } from "./dom.js";
import { readyFutures } from "./future.js";
import { constraints, timing } from "./limits.js";
import { methodChoice } from "./method.js";
import { state } from "./state.js";

/** Noisy copies of a record that the model itself decides on: more reliable than an estimate from a local model. */
const NOISE_SAMPLES = 2000;

/** What the body of `POST /recourse` and that of `POST /recourse/frontier` share. */
export const question = () => ({
  model: $("model").value,
  applicant: applicant(),
  method: methodChoice(),
  constraints: constraints(),
  ...timing(),
  certificate: { noise_samples: NOISE_SAMPLES },
});

/** The body of `POST /recourse`. */
export const recourseRequest = () => ({
  ...question(),
  ...(readyFutures() && { robustness: { future_validity: state.share } }),
});
