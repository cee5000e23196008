// A line chart over steps: axes, hover that reads values in all charts of the page, click or Enter to
// open the step. A series is `{label, split, color, points: [{x, y, low?, high?, href?}]}`; where there
// are more points than pixels, what is drawn is thinned, and what is read is not.

import { el, svg } from "./dom.js";
import { number } from "./format.js";
import { linear, range, thinned, ticks } from "./scale.js";

const MARGIN = { top: 10, right: 14, bottom: 24, left: 46 };

/** One chart as a figure. */
export function chart({ title, unit = "", help = "", series, format = number, width, height = 170, domain = null }) {
  const drawn = series
    .filter((one) => one.points.some((point) => point.y !== null))
    .map((one) => ({ ...one, seen: thinned(one.points, Math.max(50, width - 80)) }));
  const model = { ...layout(drawn, width, height, domain), series: drawn, format };
  const figure = el(
    "figure",
    { class: drawn.length > 2 ? "chart crowded" : "chart", "data-key": title, on: HANDLERS, tabindex: "0", role: "group", "aria-label": summary(title, unit, drawn, format) },
    el(
      "figcaption",
      {},
      el("span", { class: "chart-title", title: help }, title, unit && el("span", { class: "unit" }, ` ${unit}`)),
      el("span", { class: "legend" }, drawn.map((one) => legendItem(one, lastOf(one), format)), el("span", { class: "at" })),
    ),
    drawn.length === 0 ? el("p", { class: "quiet" }, "No values yet.") : plot(model, width, height),
  );
  figure.model = model;
  figure.updated = (old) => {
    const { reading = null } = old.model;
    old.model = model;
    read(old, model.steps.includes(reading) ? reading : null); // what is hovered stays read
  };
  return figure;
}

function layout(series, width, height, domain) {
  const points = series.flatMap((one) => one.points);
  const xs = points.map((point) => point.x);
  const values = points.flatMap((point) => [point.y, point.low, point.high]);
  const xDomain = xs.length ? [Math.min(...xs), Math.max(...xs)] : [0, 1];
  const yDomain = range(values, domain);
  return {
    steps: [...new Set(xs)].sort((a, b) => a - b),
    xDomain,
    yDomain,
    x: linear(xDomain, [MARGIN.left, width - MARGIN.right]),
    y: linear(yDomain, [height - MARGIN.bottom, MARGIN.top]),
    bottom: height - MARGIN.bottom,
  };
}

function plot(model, width, height) {
  const { x, y, series } = model;
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    yAxis(model, width),
    xAxis(model, width),
    series.map((one) => band(one, x, y)),
    series.map((one) => line(one, x, y)),
    svg("line", { class: "crosshair", y1: MARGIN.top, y2: model.bottom, x1: -9, x2: -9 }),
    series.map((one) => svg("circle", { class: `marker c${one.color}`, r: 3.5, cx: -9, cy: -9 })),
  );
}

function yAxis({ yDomain, y, format }, width) {
  return ticks(...yDomain, 4).map((value) =>
    svg(
      "g",
      { class: "tick" },
      svg("line", { class: value === 0 ? "zero" : "gridline", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
      svg("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    ),
  );
}

function xAxis({ xDomain, x, bottom }, width) {
  return ticks(...xDomain, Math.max(2, Math.floor(width / 90)), true).map((value) =>
    svg("text", { class: "tick", x: x(value), y: bottom + 17, "text-anchor": "middle" }, value),
  );
}

function band(one, x, y) {
  const points = one.seen.filter((point) => point.y !== null && point.low !== undefined);
  if (points.length < 2) return null;
  const top = points.map((point) => `${x(point.x)},${y(point.high)}`);
  const bottom = points.map((point) => `${x(point.x)},${y(point.low)}`).reverse();
  return svg("polygon", { class: `band c${one.color}`, points: [...top, ...bottom].join(" ") });
}

function line(one, x, y) {
  const parts = [[]];
  for (const point of one.seen) {
    if (point.y === null) parts.push([]);
    else parts.at(-1).push(point);
  }
  const sparse = one.split === "eval" || one.seen.length < 3;
  return svg(
    "g",
    { class: `series c${one.color} ${one.split}` },
    parts
      .filter((part) => part.length > 1)
      .map((part) => svg("polyline", { points: part.map((point) => `${x(point.x)},${y(point.y)}`).join(" ") })),
    parts.flatMap((part) => (sparse || part.length === 1 ? part : [])).map((point) => svg("circle", { r: 2.4, cx: x(point.x), cy: y(point.y) })),
  );
}

function lastOf(one) {
  return one.points.findLast((point) => point.y !== null)?.y ?? null;
}

function legendItem(one, value, format) {
  return el(
    "span",
    { class: `legend-item c${one.color} ${one.split}`, title: one.label },
    el("i", { class: "swatch", "aria-hidden": "true" }),
    el("span", { class: "legend-label" }, one.label),
    el("b", {}, format(value)),
  );
}

function summary(title, unit, series, format) {
  const said = series.map((one) => `${one.label} ${format(lastOf(one))}`).join(", ");
  return `${title}${unit && `, ${unit}`}: ${said || "no values yet"}`;
}

// ---------------------------------------------------------------- hover, click and keys

const HANDLERS = {
  pointermove: (event) => readAll(event.currentTarget, stepUnder(event)),
  pointerleave: (event) => readAll(event.currentTarget, null),
  blur: (event) => readAll(event.currentTarget, null),
  click: (event) => open(event.currentTarget, stepUnder(event)),
  keydown: (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const { steps, reading } = event.currentTarget.model;
    if (event.key === "Enter") return open(event.currentTarget, reading ?? steps.at(-1));
    if (move === undefined || steps.length === 0) return;
    const at = reading === null || reading === undefined ? steps.length - 1 : steps.indexOf(reading) + move;
    readAll(event.currentTarget, steps[Math.max(0, Math.min(steps.length - 1, at))]);
    event.preventDefault();
    event.stopPropagation();
  },
};

function stepUnder(event) {
  const box = event.currentTarget.querySelector("svg")?.getBoundingClientRect();
  if (!box) return null;
  const { steps, x } = event.currentTarget.model;
  return nearest(steps, x.invert(event.clientX - box.left));
}

function nearest(steps, at) {
  return steps.reduce((best, step) => (best === null || Math.abs(step - at) < Math.abs(best - at) ? step : best), null);
}

function readAll(figure, step) {
  const page = figure.closest("[data-charts]") ?? figure.parentNode;
  for (const one of page.querySelectorAll("figure.chart")) if (one.model) read(one, step);
}

/** Show the values at a step, or the last ones where it is null. */
function read(figure, step) {
  const { x, y, series, format } = figure.model;
  figure.model.reading = step;
  const crosshair = figure.querySelector(".crosshair");
  if (!crosshair) return;
  const at = step === null ? -9 : x(step);
  crosshair.setAttribute("x1", at);
  crosshair.setAttribute("x2", at);
  figure.querySelector(".at").textContent = step === null ? "" : `step ${step}`;
  const markers = figure.querySelectorAll(".marker");
  const values = figure.querySelectorAll(".legend-item b");
  series.forEach((one, n) => {
    const point = step === null ? null : one.points.find((candidate) => candidate.x === step);
    const there = point && point.y !== null;
    markers[n].setAttribute("cx", there ? x(point.x) : -9);
    markers[n].setAttribute("cy", there ? y(point.y) : -9);
    values[n].textContent = format(step === null ? lastOf(one) : (point?.y ?? null));
  });
}

function open(figure, step) {
  const found = figure.model.series.map((one) => one.points.find((point) => point.x === step && point.href)).find(Boolean);
  if (found) figure.dispatchEvent(new CustomEvent("open-page", { bubbles: true, detail: found.href }));
}
