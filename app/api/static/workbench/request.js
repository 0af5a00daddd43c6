// @ts-check
/** The form as the body of a request. */

import { applicant } from "./applicant.js";
import { $ } from "./dom.js";
import { readyFutures } from "./future.js";
import { constraints, timing } from "./limits.js";
import { isPlan, methodChoice, wayCount } from "./method.js";
import { state } from "./state.js";
import { wishesRequest } from "./wishes.js";

/** Noisy copies of a record that the model itself decides on: more reliable than an estimate from a local model. */
const NOISE_SAMPLES = 2000;

/** What the body of `POST /recourse` and that of `POST /recourse/frontier` share. */
const question = () => ({
  model: $("model").value,
  applicant: applicant(),
  method: methodChoice(),
  constraints: constraints(),
  ...wishesRequest(),
  ...timing(),
  certificate: { noise_samples: NOISE_SAMPLES },
  detail: "full",
});

/** The body of `POST /recourse`. */
export const recourseRequest = () => ({
  ...question(),
  ...(wayCount() !== null && { count: wayCount() }),
  ...(readyFutures() && { robustness: { future_validity: state.share } }),
});

/** The body of `POST /recourse/frontier`. @param {string} parameter @param {number[]} values */
export function frontierRequest(parameter, values) {
  const { method, ...rest } = question();
  const members = isPlan() && wayCount() !== null && { count: wayCount() };
  return { ...rest, method: { ...method, ...members }, sweep: { parameter, values } };
}
