// @ts-check
/** The question "what would change the answer?": ask it, ask it again, and mark or forget answers that are outdated. */

import { isAborted } from "./api.js";
import { showAnswer } from "./answer.js";
import { checkApplicant, faultText, faultyFeatures } from "./applicant.js";
import { $, debounce, fill } from "./dom.js";
import { forgetCurve, markCurve } from "./frontier.js";
import { submit } from "./jobs.js";
import { removeLimit } from "./limits.js";
import { problemNote } from "./problem.js";
import { recourseRequest } from "./request.js";
import { state } from "./state.js";
import { faultyTyped } from "./typed.js";
import { bringUp } from "./views.js";
import { addWish, removeWishes, showWishes } from "./wishes.js";

/** @import { Relaxation, Wish } from "./types.d.ts" */

let pending = new AbortController();

/** What the place of the answer holds at first. */
const START = [...$("answer-body").childNodes];

const ASKING = "Asking";

/**
 * Ask, unless fields are empty or wrong.
 * @param {boolean} [requested] whether the reader asked for it, and is taken to the answer
 */
export async function ask(requested = true) {
  askSoon.cancel();
  const faulty = checkApplicant();
  if (faulty.length > 0) {
    fill("verdict", faultText(faulty.length));
    return;
  }
  const [wrong] = faultyTyped();
  if (wrong) {
    const folded = wrong.closest("details");
    if (folded) folded.open = true;
    wrong.focus();
    return;
  }
  pending.abort();
  const mine = (pending = new AbortController());
  busy(true);
  if (requested) bringUp($("answer"));
  try {
    await answer(mine.signal);
  } catch (problem) {
    if (!isAborted(problem)) showProblem(problem);
  } finally {
    if (mine === pending) busy(false);
  }
  if (requested && !mine.signal.aborted) bringUp($("answer"));
}

/** Show a problem in place of the answer. @param {any} problem */
function showProblem(problem) {
  state.answer = null;
  $("answer-body").classList.remove("outdated");
  fill("answer-body", problemNote(problem));
}

/** @param {boolean} asking */
function busy(asking) {
  $("answer").setAttribute("aria-busy", String(asking));
  $("ask").classList.toggle("asking", asking);
  if (asking) $("answer").classList.add("asked");
  if (asking || $("answer-status").textContent === ASKING) $("answer-status").textContent = asking ? ASKING : "";
}

/** @param {AbortSignal} signal */
async function answer(signal) {
  const background = $("background").checked;
  const body = { ...recourseRequest(), store: false };
  const found = await submit("recourse", body, $("answer-job"), { background, signal });
  if (signal.aborted || found === null) return;
  const asked = { body, background };
  Object.assign(state, { answer: found, asked });
  showAnswer(found, asked, ACTIONS);
  $("frontier").hidden = $("knob").options.length === 0 || found.status === "already_favourable";
}

/** Ask again without a limit that blocks. @param {Relaxation} relaxation */
function askWithout(relaxation) {
  const { constraint, feature } = relaxation;
  if (constraint === "exclude" || constraint === "must_include") removeWishes(constraint, feature);
  else removeLimit(relaxation);
  askAsWished();
}

/** Ask again after the wishes have changed. */
function askAsWished() {
  showWishes(askAsWished);
  markOutdated();
  ask();
}

const ACTIONS = {
  removeLimit: askWithout,
  takeLonger: () => (($("background").checked = true), ask()),
  wish: (/** @type {Wish} */ wish) => (addWish(wish), askAsWished()),
};

/** Mark the answer and the curve, and stop waiting for others: the form has changed since. */
export function markOutdated() {
  pending.abort();
  if (state.answer) $("answer-body").classList.add("outdated");
  markCurve();
}

/** Forget the answer and the curve: another applicant, or another model. */
export function forgetAnswer() {
  pending.abort();
  askSoon.cancel();
  state.answer = null;
  $("answer").classList.remove("asked");
  $("answer-body").classList.remove("outdated");
  fill("answer-body", ...START);
  fill("answer-job");
  $("answer-status").textContent = "";
  forgetCurve();
  $("frontier").hidden = true;
}

const askSoon = debounce(() => ask(false), 300);

/** Once it was asked for, the answer follows the slider and the limits. */
export function askAgain() {
  markOutdated();
  if ($("answer").classList.contains("asked") && faultyFeatures().length + faultyTyped().length === 0) askSoon();
}
