/**
 * The workbench: describe an applicant, see what would change the model's decision, and what more robustness costs.
 * Everything on the page comes from the public API. Modules import only those before them in `page.html`; what other views
 * and later steps need is fetched then.
 */

import { Problem, fetchJson, forgetKey, storedKey } from "./api.js";
import { applicant, applicantField, fillApplicant, watchTyped } from "./applicant.js";
import { decide, decideSoon } from "./decision.js";
import { $, fill, h, later } from "./dom.js";
import { formatDate } from "./format.js";
import { refreshModel, showFutures } from "./futures.js";
import { problemNote } from "./jobs.js";
import { offerLimits } from "./limits.js";
import { STANDARD_SHARE, followSlider, followTyped, offerKnobs, offerMethods, offerParameters } from "./method.js";
import { ask, askAgain, forgetAnswer, markOutdated } from "./question.js";
import { baseFeatures, chosenModel, fullName, state } from "./state.js";
import { clearWishes } from "./wishes.js";

/** The address says which one is shown. */
const VIEWS = ["one", "many", "promises", "portfolio"];

/** @returns the view that the address names; the one that is shown where it names none */
function named() {
  const name = location.hash.slice(1);
  return VIEWS.includes(name) ? name : shownView();
}

const shownView = () => VIEWS.find((name) => !$(`view-${name}`).hidden) ?? VIEWS[0];

function followViews(onShow) {
  const show = () => {
    const name = named();
    const changed = name !== shownView();
    for (const view of VIEWS) $(`view-${view}`).hidden = view !== name;
    for (const tab of document.querySelectorAll(".tabs a")) {
      if (tab.getAttribute("href") === `#${name}`) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    document.querySelector(".skip").hidden = name !== VIEWS[0];
    if (!changed) return;
    scrollTo(0, 0);
    $(`title-${name}`).focus({ preventScroll: true });
    onShow(name);
  };
  addEventListener("hashchange", show);
  show();
}

/** Between two looks at a service that is not ready. */
const RETRY_MS = 1500;

/** Offer the form of the chosen model; it keeps the applicant where it asks for nothing else. */
async function chooseModel() {
  const name = $("model").value;
  forgetAnswer();
  const path = `models/${encodeURIComponent(name)}/schema`;
  const [{ features, rules, samples }] = await Promise.all([fetchJson(path), refreshModel(name)]);
  if (name !== $("model").value) return;
  const known = applicant();
  Object.assign(state, { features, samples, share: STANDARD_SHARE });
  showAbout();
  $("rules").textContent = rules.length > 0 ? `Every answer keeps to: ${rules.join("; ")}.` : "";
  fill("fields", ...features.map(fieldOf));
  for (const id of ["limits", "how", "about-panel"]) $(id).hidden = false;
  $("example").disabled = samples.length === 0;
  $("example").textContent = "Fill in an example";
  $("ask").disabled = false;
  chooseMethod();
  showFutures(() => (offerKnobs(), askAgain()));
  document.body.classList.remove("loading");
  startWith(baseFeatures().every((feature) => feature.name in known) ? known : {});
  showView(shownView());
}

function showView(name) {
  if (state.features.length === 0) return;
  if (name === "one" && state.curve) later("frontier", "drawFrontier")(); // what is hidden has no width to draw in
  if (name === "many") later("batch", "showMany")();
  if (name === "promises") (later("ledger", "showStored")(), later("calibration", "loadCalibration")());
  if (name === "portfolio") later("portfolio", "listReports")();
}

const fieldOf = (feature) =>
  applicantField(feature, () => {
    markOutdated();
    decideSoon();
  });

function chooseMethod() {
  offerParameters(markOutdated);
  markOutdated();
}

function showAbout() {
  const { description, registered_at: registered, ...model } = chosenModel();
  fill("about", h("b", fullName(model)), `, registered on ${formatDate(registered)}. ${description ?? ""}`);
}

function fillExample() {
  const [next, ...others] = state.samples;
  state.samples = [...others, next];
  if (others.length > 0) $("example").textContent = "Another example";
  startWith(next);
}

function startWith(record) {
  fillApplicant(record);
  clearWishes();
  offerLimits(askAgain);
  forgetAnswer();
  decide();
}

/** Fill in the applicant of a stored answer, with its version of the model if that is in use. */
async function followStored({ detail: { model, applicant, resolve } }) {
  const offered = [...$("model").options].some(({ value }) => value === model);
  if (offered && $("model").value !== model) {
    $("model").value = model;
    await guarded(chooseModel)();
  }
  if (offered) startWith(applicant);
  resolve(offered);
}

/** Work whose failure is shown where the decision would be. */
const guarded = (work) => async () => {
  try {
    await work();
  } catch (problem) {
    document.body.classList.remove("loading");
    fill("verdict", problemNote(problem));
  }
};

const onSubmit = (work) => (event) => (event.preventDefault(), work());

/** A file for many applicants is chosen, or dropped. */
function watchFile() {
  const drop = $("drop");
  const take = later("batch", "take");
  $("file").onchange = () => take($("file").files[0]);
  const mark = (over) => (event) => {
    event.preventDefault();
    drop.classList.toggle("over", over);
  };
  drop.ondragover = mark(true);
  drop.ondragleave = mark(false);
  drop.ondrop = (event) => (mark(false)(event), take(event.dataTransfer.files[0]));
}

function listen() {
  $("model").onchange = guarded(chooseModel);
  $("method").onchange = chooseMethod;
  $("example").onclick = fillExample;
  $("fields").onsubmit = onSubmit(() => ask());
  for (const id of ["most", "months", "sequential", "count"]) $(id).oninput = askAgain;
  $("slider").oninput = () => (followSlider(), askAgain());
  $("slider-value").onchange = () => (followTyped(), askAgain());
  $("case").addEventListener("applicant", followStored);
  $("letter-form").onsubmit = onSubmit(later("case", "recordLetter"));
  $("letter-language").onchange = $("letter-applied").onchange = guarded(later("case", "showLetter"));
  $("letter-print").onclick = later("case", "printLetter");
  $("letter-close").onclick = () => $("letter").close();
  $("draw").onclick = later("frontier", "askFrontier");
  $("find").onsubmit = onSubmit(() => later("ledger", "findStored")(true));
  $("audit").onsubmit = onSubmit(later("ledger", "audit"));
  $("report").onclick = later("portfolio", "startReport");
  watchFile();
  watchTyped();
  followViews(showView);
  $("forget").onclick = forgetKey;
  $("forget").hidden = !storedKey();
}

/** Offer the models in use; the newest version of the first one is chosen. */
function offerModels(active) {
  if (active.length === 0) throw new Problem({ title: "No model", detail: "This service has no active model." });
  // The version comes first: a narrow field cuts off the end.
  const options = active.map((m) => h("option", { value: fullName(m) }, `Version ${m.version} of ${m.title}`));
  const newest = active.filter((m) => m.id === active[0].id).at(-1);
  fill("model", ...options);
  $("model").value = fullName(newest);
  $("model").disabled = false;
}

async function start() {
  const [{ models }, { methods, default: standard }] = await Promise.all([fetchJson("models"), fetchJson("methods")]);
  Object.assign(state, { models, methods });
  offerModels(models.filter((m) => m.active));
  offerMethods();
  $("method").value = standard;
  await chooseModel();
}

/** Start, and again where the service is not ready yet. */
async function startOnceReady() {
  try {
    await start();
  } catch (problem) {
    if (problem.document?.code !== "not-ready") throw problem;
    document.body.classList.remove("loading");
    fill("verdict", "The service is starting. The page goes on by itself.");
    setTimeout(guarded(startOnceReady), RETRY_MS);
  }
}

listen();
guarded(startOnceReady)();
