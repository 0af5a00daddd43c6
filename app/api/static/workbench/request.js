/** The form as the body of a request. */

import { applicant } from "./applicant.js";
import { $ } from "./dom.js";
import { constraints, timing } from "./limits.js";
import { isPlan, methodChoice, wayCount } from "./method.js";
import { readyFutures, state } from "./state.js";
import { wishesRequest } from "./wishes.js";

/** Noisy copies of a record that the model itself decides on: more reliable than an estimate from a local model. */
const NOISE_SAMPLES = 2000;

/** What all bodies share. */
const common = () => ({ model: $("model").value, method: methodChoice(), detail: "full" });

/** How many ways, and how sure they should be. */
const wanted = () => ({
  ...(wayCount() !== null && { count: wayCount() }),
  ...(readyFutures() && { robustness: { future_validity: state.share } }),
});

/** What the body of `POST /recourse` and that of `POST /recourse/frontier` share. */
const question = () => ({
  ...common(),
  applicant: applicant(),
  constraints: constraints(),
  ...wishesRequest(),
  ...timing(),
  certificate: { noise_samples: NOISE_SAMPLES },
});

export const recourseRequest = () => ({ ...question(), ...wanted(), reasons: true });

/**
 * The body of `POST /recourse/offers` about the applicant of another request, within its limits and wishes.
 * @param asked the body of `POST /recourse`
 */
export function offersRequest({ model, applicant: record, constraints: limits, robustness, exclude }) {
  const immutable = [...(limits.immutable ?? []), ...(exclude?.features ?? [])];
  return {
    model,
    applicant: record,
    constraints: { ...limits, immutable },
    future_validity: robustness?.future_validity ?? null,
  };
}

/** The first line of `POST /recourse/batch`; limits and wishes are of one person. */
export const batchRequest = (store) => ({ ...common(), ...wanted(), store });

export function frontierRequest(parameter, values) {
  const { method, ...rest } = question();
  const members = isPlan() && wayCount() !== null && { count: wayCount() };
  return { ...rest, method: { ...method, ...members }, sweep: { parameter, values } };
}
