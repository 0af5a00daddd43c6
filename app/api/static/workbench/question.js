/** The question "what would change the answer?": ask it, ask it again, and mark or forget answers that are outdated. */

import { isAborted } from "./api.js";
import { checkApplicant, faultText, faultyFeatures, faultyTyped } from "./applicant.js";
import { $, bringUp, debounce, fill } from "./dom.js";
import { problemNote, submit } from "./jobs.js";
import { removeLimit } from "./limits.js";
import { recourseRequest } from "./request.js";
import { state } from "./state.js";
import { addWish, removeWishes, showWishes } from "./wishes.js";

let pending = new AbortController();

/** What the place of the answer holds at first. */
const START = [...$("answer-body").childNodes];

const ASKING = "Asking";

/**
 * Ask, unless fields are empty or wrong.
 * @param requested whether the reader asked for it, and is taken to the answer
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

function showProblem(problem) {
  state.answer = null;
  $("answer-body").classList.remove("outdated");
  fill("answer-body", problemNote(problem));
}

function markAsked(asked) {
  $("answer").classList.toggle("asked", asked);
  arrange();
}

const narrow = matchMedia("(width < 62rem)");
narrow.onchange = arrange;
arrange();

/**
 * Put the parts of the view in the order in which they are seen, which the keyboard follows. Where there is room, the
 * decision stands above the form and the answer beside them; else it is below the form, and an answer above both.
 */
function arrange() {
  const [inputs, outputs, forms, decision] = ["inputs", "outputs", "forms", "pinned"].map((part) =>
    document.querySelector(`#view-one .${part}`),
  );
  const focused = document.activeElement;
  const answerFirst = narrow.matches && $("answer").classList.contains("asked");
  if (answerFirst !== (outputs.nextElementSibling === inputs)) inputs[answerFirst ? "before" : "after"](outputs);
  if (narrow.matches !== (forms.nextElementSibling === decision)) forms[narrow.matches ? "after" : "before"](decision);
  if (document.activeElement !== focused) focused.focus({ preventScroll: true });
}

function busy(asking) {
  $("answer").setAttribute("aria-busy", String(asking));
  $("ask").classList.toggle("asking", asking);
  if (asking) markAsked(true);
  if (asking || $("answer-status").textContent === ASKING) $("answer-status").textContent = asking ? ASKING : "";
}

async function answer(signal) {
  const background = $("background").checked;
  const body = { ...recourseRequest(), store: false };
  const [found, { showAnswer }] = await Promise.all([
    submit("recourse", body, $("answer-job"), { background, signal }),
    import("./answer.js"),
  ]);
  if (signal.aborted || found === null) return;
  const asked = { body, background };
  Object.assign(state, { answer: found, asked });
  showAnswer(found, asked, ACTIONS);
  $("frontier").hidden = $("knob").options.length === 0 || found.status === "already_favourable";
}

function askWithout(relaxation) {
  const { constraint, feature } = relaxation;
  if (constraint === "exclude" || constraint === "must_include") removeWishes(constraint, feature);
  else removeLimit(relaxation);
  askAsWished();
}

function askAsWished() {
  showWishes(askAsWished);
  markOutdated();
  ask();
}

const ACTIONS = {
  removeLimit: askWithout,
  takeLonger: () => (($("background").checked = true), ask()),
  wish: (wish) => (addWish(wish), askAsWished()),
};

/** Mark the answer and the curve, and stop waiting for others: the form has changed since. */
export function markOutdated() {
  pending.abort();
  if (state.answer) $("answer-body").classList.add("outdated");
  $("curve").dispatchEvent(new Event("outdated"));
}

/** Forget the answer and the curve: another applicant, or another model. */
export function forgetAnswer() {
  pending.abort();
  askSoon.cancel();
  state.answer = null;
  markAsked(false);
  $("answer-body").classList.remove("outdated");
  fill("answer-body", ...START);
  fill("answer-job");
  $("answer-status").textContent = "";
  $("curve").dispatchEvent(new Event("forgotten"));
  $("frontier").hidden = true;
}

const askSoon = debounce(() => ask(false), 300);

/** Once it was asked for, the answer follows the slider and the limits. */
export function askAgain() {
  markOutdated();
  if ($("answer").classList.contains("asked") && faultyFeatures().length + faultyTyped().length === 0) askSoon();
}
