/** Calibration: what was promised about future models against what the next version of the model kept. */

import { fetchJson } from "./api.js";
import { axes, intervalBar } from "./curve.js";
import { $, debounce, fill, h, table, svg } from "./dom.js";
import { counted, formatNumber, formatShort, inHundred, outOfHundred, readable } from "./format.js";
import { problemNote } from "./jobs.js";
import { chosenModel } from "./state.js";

const NONE =
  "Nothing to compare yet: it needs stored answers that say what retrained models will do, and a newer version of the " +
  "model in use.";

const TICKS = [0, 25, 50, 75, 100];

let shown = null;

addEventListener("resize", debounce(drawCalibration, 200));
$("calibrated").onchange = drawCalibration;

/** Show the calibration of the chosen model; it reads the whole ledger, so not before the reader looks at promises. */
export async function loadCalibration() {
  shown = null;
  $("calibrated").closest(".row").hidden = true;
  const { id } = chosenModel();
  try {
    const found = await fetchJson(`models/${encodeURIComponent(id)}/calibration`);
    if (id === chosenModel().id) offerCalibration(found);
  } catch (problem) {
    fill("reliability", problemNote(problem));
  }
}

function offerCalibration(found) {
  if (found.bins.length === 0) {
    fill("reliability", h("p.hint", NONE), ...backtest(found));
    return;
  }
  shown = found;
  const methods = found.methods.length > 1 ? found.methods : [];
  const options = methods.map(({ method }) => h("option", { value: method }, readable(method)));
  fill("calibrated", h("option", { value: "" }, "All methods"), ...options);
  $("calibrated").closest(".row").hidden = methods.length === 0;
  drawCalibration();
}

/** Draw the calibration that is held, for example after the window has changed its size. */
export function drawCalibration() {
  if (!shown) return;
  const method = $("calibrated").value;
  const part = shown.methods.find((one) => one.method === method) ?? shown;
  const caption =
    "Each point is a row of the table; its bar is the 95% confidence interval. On the dashed line, as many promises were " +
    "kept as was promised; below it, fewer.";
  const figure = h("figure", h("figcaption.hint", caption));
  fill("reliability", h("p", ...summary(part)), h("div.beside", figure, keptTable(part.bins)), ...backtest(shown));
  figure.prepend(drawing(part.bins, figure.clientWidth));
}

/** @param part of the calibration: all, or one method */
function summary({ promises, mean_told: told, kept }) {
  const { pending, correction } = shown;
  return [
    `Of ${counted(promises, "promise")}, the next version of the model kept ${inHundred(kept)}; `,
    `the answers had promised ${inHundred(told)}. `,
    pending > 0 && `Without a next version so far: ${counted(pending, "promise")}. `,
    correction && "Fewer were kept than promised, so answers now say the share that was kept.",
  ].filter(Boolean);
}

function drawing(bins, room) {
  const { x, y, drawing } = axes(TICKS, ["promised, of 100", "kept, of 100"], room);
  drawing.append(
    svg("path", { class: "diagonal", d: `M${x(0)} ${y(0)}L${x(100)} ${y(1)}` }),
    ...bins.map((bin) => intervalBar(x(100 * bin.mean_told), bin.interval.map(y))),
    ...bins.map((bin) => svg("circle", { cx: x(100 * bin.mean_told), cy: y(bin.kept), r: 5 })),
  );
  return drawing;
}

const interval = ([low, high]) => `${formatShort(100 * low)} to ${formatShort(100 * high)}`;

const INTERVAL = "95% interval, of 100";

function keptTable(bins) {
  const heads = ["Promised, of 100", "Promises", "Promised on average", "Kept, of 100", INTERVAL];
  const rows = bins.map((bin) => [
    bin.told.map((end) => Math.round(100 * end)).join(" to "),
    formatNumber(bin.promises),
    outOfHundred(bin.mean_told),
    outOfHundred(bin.kept),
    interval(bin.interval),
  ]);
  return table({ label: "Promised and kept as a table", caption: "Promised against kept" }, heads, rows);
}

/** What models of later dates kept of answers at earlier dates of the records. */
function backtest({ backtest: entries, backtest_detail: why }) {
  if (entries.length === 0) return why ? [h("p.hint", `No backtest: ${why}`)] : [];
  const heads = ["Asked for, of 100", "Months later", "Answers", "Promised, of 100", "Kept, of 100", INTERVAL];
  const rows = entries.map((entry) => [
    entry.asked === null ? "nothing" : formatShort(100 * entry.asked),
    formatNumber(entry.months),
    formatNumber(entry.promises),
    outOfHundred(entry.promised),
    outOfHundred(entry.kept),
    interval(entry.interval),
  ]);
  const text =
    "Answers that could have been given at earlier dates of the records, and how many of them the models trained later " +
    "accepted:";
  const names = { label: "Backtest by date", caption: "What later models kept of earlier answers" };
  return [h("p", text), table(names, heads, rows)];
}
