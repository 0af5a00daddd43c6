/** A curve of cost against robustness, as a drawing. */

import { svg } from "./dom.js";
import { formatShort } from "./format.js";

const [HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [290, 50, 44, 14, 14];

/**
 * The curve with its points.
 * @param marks each with `step`, `cost`, `robustness` from 0 to 1 and its `interval` or null, whether it is `dominated` or
 * `chosen`, and how to `choose` it
 * @param measure name of the robustness
 * @param room in pixels
 */
export function curveDrawing(marks, measure, room) {
  const ticks = roundTicks(Math.max(...marks.map((mark) => mark.cost)));
  const { x, y, drawing } = axes(ticks, ["effort", measure], room);
  const line = marks
    .filter((mark) => !mark.dominated)
    .sort((a, b) => a.cost - b.cost)
    .map(({ cost, robustness }, i) => `${i ? "L" : "M"}${x(cost)} ${y(robustness)}`);
  drawing.append(
    svg("path", { class: "line", d: line.join("") }),
    ...marks.flatMap((mark) => (mark.interval ? [intervalBar(x(mark.cost), mark.interval.map(y))] : [])),
    ...marks.map((mark) => circle(mark, x(mark.cost), y(mark.robustness))),
  );
  return drawing;
}

/**
 * A drawing of two axes; the vertical one goes from 0 to 1, written as a count of 100.
 * @param ticks of the horizontal axis, from its start to its end
 * @param names of the axes
 * @param room in pixels
 */
export function axes(ticks, [across, up], room) {
  const width = Math.max(280, Math.min(900, room));
  const [start, end] = [ticks[0], ticks[ticks.length - 1]];
  const x = (value) => LEFT + ((value - start) / (end - start)) * (width - LEFT - RIGHT);
  const y = (share) => HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
  const label = (attributes, text) => svg("text", attributes, text);
  const middle = `translate(12 ${(HEIGHT - BOTTOM + TOP) / 2}) rotate(-90)`;
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, class: "curve", "aria-hidden": "true" },
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
      svg("path", { class: "grid", d: `M${LEFT} ${y(share)}H${width - RIGHT}` }),
      label({ x: LEFT - 6, y: y(share) + 4, class: "end" }, formatShort(100 * share)),
    ]),
    ...ticks.map((tick) => label({ x: x(tick), y: HEIGHT - BOTTOM + 18, class: "middle" }, formatShort(tick))),
    label({ x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, class: "middle" }, `${across} →`),
    label({ transform: middle, class: "middle" }, `${up} →`),
  );
  return { x, y, drawing };
}

export const intervalBar = (x, [low, high]) =>
  svg("path", { class: "interval", d: `M${x} ${low}V${high}M${x - 4} ${low}h8M${x - 4} ${high}h8` });

function circle({ step, dominated, chosen, choose }, cx, cy) {
  const state = [dominated && "open", chosen && "chosen"].filter(Boolean).join(" ");
  const attributes = { cx, cy, r: chosen ? 8 : 5.5, class: state, onclick: choose };
  return svg("circle", attributes, svg("title", `Step ${step}`));
}

/** Round numbers from 0 to at least the largest. */
function roundTicks(largest) {
  const raw = (largest || 1) / 4;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 2.5, 5, 10].find((m) => m * unit >= raw);
  return Array.from({ length: Math.ceil((largest || 1) / step - 1e-9) + 1 }, (_, i) => i * step);
}
