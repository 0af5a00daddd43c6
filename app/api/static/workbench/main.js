// @ts-check
/**
 * The workbench: describe an applicant, see what would change the model's decision, and what more robustness costs.
 *
 * Everything on the page comes from the public API. Modules import only those before them in `page.html`.
 */

import { Problem, fetchJson } from "./api.js";
import { applicantField, fillApplicant } from "./applicant.js";
import { audit, offerVersions } from "./audit.js";
import { drawCalibration, watchCalibration } from "./calibration.js";
import { decide, decideSoon } from "./decision.js";
import { $, debounce, fill, h } from "./dom.js";
import { askFrontier, drawFrontier } from "./frontier.js";
import { forgetKey, storedKey } from "./key.js";
import { findStored } from "./ledger.js";
import { limitRow, markCurrent, showBounds } from "./limits.js";
import { offerMethods, offerParameters } from "./method.js";
import { problemNote } from "./problem.js";
import { ask, askAgain, markOutdated } from "./question.js";
import { refreshModel, showFutures } from "./rehearsal.js";
import { STANDARD_SHARE, followSlider, offerKnobs } from "./slider.js";
import { chosenModel, fullName, state } from "./state.js";

/** @import { Applicant, Feature, Model } from "./types.d.ts" */

/** Offer the form of the chosen model. */
async function chooseModel() {
  const name = $("model").value;
  const path = `models/${encodeURIComponent(name)}/schema`;
  const [{ features, rules, sample }] = await Promise.all([fetchJson(path), refreshModel(name)]);
  if (name !== $("model").value) return;
  Object.assign(state, { features, sample, answer: null, share: STANDARD_SHARE });
  $("about").textContent = chosenModel().description ?? "";
  $("rules").textContent = rules.length > 0 ? `Every answer keeps to: ${rules.join("; ")}.` : "";
  // The button lets the Enter key submit the form.
  fill("fields", ...features.map(fieldOf), h("button.unseen", { tabindex: -1 }, "Ask"));
  fill("limit-rows", ...features.map((/** @type {Feature} */ feature) => limitRow(feature, askAgain)));
  for (const feature of features) showBounds(feature);
  for (const id of ["limits", "how"]) $(id).hidden = false;
  $("example").disabled = sample === null;
  $("ask").disabled = false;
  chooseMethod();
  showFutures(() => (offerKnobs(), askAgain()));
  document.body.classList.remove("loading");
  decide();
  watchCalibration();
}

/** @param {Feature} feature */
const fieldOf = (feature) =>
  applicantField(feature, () => {
    markCurrent(feature);
    markOutdated();
    decideSoon();
  });

function chooseMethod() {
  offerParameters(markOutdated);
  markOutdated();
}

function fillExample() {
  fillApplicant(/** @type {Applicant} */ (state.sample));
  state.features.forEach(markCurrent);
  markOutdated();
  decide();
}

/** Work whose failure is shown where the decision would be. @param {() => Promise<void>} work */
const guarded = (work) => async () => {
  try {
    await work();
  } catch (problem) {
    document.body.classList.remove("loading");
    fill("verdict", problemNote(problem));
  }
};

/** @param {() => void} work */
const onSubmit = (work) => (/** @type {Event} */ event) => (event.preventDefault(), work());

function listen() {
  $("model").onchange = guarded(chooseModel);
  $("method").onchange = chooseMethod;
  $("example").onclick = fillExample;
  $("fields").onsubmit = onSubmit(ask);
  $("ask").onclick = () => ask();
  for (const id of ["most", "months", "sequential"]) $(id).oninput = askAgain;
  $("slider").oninput = () => (followSlider(), askAgain());
  $("draw").onclick = askFrontier;
  $("against").onchange = drawFrontier;
  $("calibrated").onchange = drawCalibration;
  $("find").onsubmit = onSubmit(findStored);
  $("audit").onsubmit = onSubmit(audit);
  $("forget").onclick = forgetKey;
  $("forget").hidden = !storedKey();
  addEventListener("resize", debounce(() => (drawFrontier(), drawCalibration()), 200));
}

/** Offer the models in use; the newest version of the first one is chosen. @param {Model[]} active */
function offerModels(active) {
  if (active.length === 0) throw new Problem({ title: "No model", detail: "This service has no active model." });
  const options = active.map((m) => h("option", { value: fullName(m) }, `${m.title}, version ${m.version}`));
  const newest = /** @type {Model} */ (active.filter((m) => m.id === active[0].id).at(-1));
  fill("model", ...options);
  $("model").value = fullName(newest);
  $("model").disabled = false;
}

async function start() {
  const [{ models }, { methods, default: standard }] = await Promise.all([fetchJson("models"), fetchJson("methods")]);
  Object.assign(state, { models, methods });
  offerModels(models.filter((/** @type {Model} */ m) => m.active));
  offerMethods();
  $("method").value = standard;
  await chooseModel();
  $("ledger").hidden = false;
  offerVersions();
}

listen();
guarded(start)();
