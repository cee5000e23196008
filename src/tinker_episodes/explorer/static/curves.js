// The charts of a run: which values are drawn, and from which rows.

import { chart } from "./chart.js";
import { el } from "./dom.js";
import { compact, cutName, number, percent } from "./format.js";
import { address } from "./router.js";
import { plain } from "./text.js";

const HEIGHT = 142; // of a small plot; a wide one is as high as two of them with what stands between
const ABOVE = 78;
const COLORS = 8;
const share = { format: percent, domain: [0, 0.02] };

/** The sections of charts of one or several runs. `curves` holds `{rows}` of each of `names`. */
export function run({ names, curves, metrics = null }, width) {
  if (metrics) return trainerCharts(metrics, width);
  const rows = curves.flatMap((curve) => curve.rows);
  const draw = drawer(names, curves, width);
  return el(
    "div",
    { "data-charts": true },
    section("Reward", [
      draw({ title: "Reward", help: "mean of the rollouts that have one; the band is the standard deviation of the groups' means", pick: (row) => row.reward, spread: (row) => row.spread_between, trained: (row) => row.trained_reward, wide: true }),
      draw({ title: "Spread between groups", help: "standard deviation of the groups' mean rewards", pick: (row) => row.spread_between }),
      draw({ title: "Spread inside groups", help: "mean of the groups' standard deviations: what is learnt from", pick: (row) => row.spread_inside }),
    ], width),
    section("Scorers", named(rows, "scores").map((name) => draw({ title: plain(name, 60), help: "mean of the scorer's values", pick: (row) => row.scores[name] ?? null })), width),
    section("Groups and endings", [
      draw({ title: "Constant reward", unit: "share of groups", help: "all rewards of the group are the same: nothing is learnt from it", pick: (row) => row.constant, ...share }),
      draw({ title: "Cut", unit: "share of rollouts", pick: (row) => shareOf(row.cut, row), ...share }),
      ...named(rows, "cuts").map((name) => draw({ title: `Cut: ${cutName(plain(name, 40))}`, unit: "share of rollouts", pick: (row) => shareOf(row.cuts[name] ?? 0, row), ...share })),
      ...failures(rows, draw),
    ], width),
    section("Tools and format", [
      draw({ title: "Tool errors", unit: "a rollout", pick: (row) => row.tool_errors }),
      draw({ title: "Format errors", unit: "a rollout", pick: (row) => row.format_errors }),
    ], width),
    section("Length", [
      draw({ title: "Turns", unit: "a rollout", pick: (row) => row.turns }),
      draw({ title: "Sampled tokens", unit: "a rollout", pick: (row) => row.sampled_tokens, format: compact }),
    ], width),
  );
}

function shareOf(amount, row) {
  return row.rollouts ? amount / row.rollouts : null;
}

function failures(rows, draw) {
  if (!rows.some((row) => row.failed > 0 || row.abandoned > 0)) return [];
  return [
    draw({ title: "Failed", unit: "share of rollouts", help: "the environment's own code failed: they have no reward", pick: (row) => shareOf(row.failed, row), ...share }),
    draw({ title: "Dropped", unit: "share of rollouts", help: "the trainer dropped them before they ended", pick: (row) => shareOf(row.abandoned, row), ...share }),
  ];
}

function section(title, charts, width) {
  const drawn = charts.filter((one) => one !== null);
  if (drawn.length === 0) return null;
  return el("section", { class: "charts", "data-key": title }, el("h2", {}, title), el("div", { class: `grid columns-${columns(width).many}` }, drawn));
}

function named(rows, field) {
  return [...new Set(rows.flatMap((row) => Object.keys(row[field])))].sort();
}

/** Columns of charts, and how wide each is. */
function columns(width) {
  const many = width > 1500 ? 4 : 3;
  const gap = 16;
  const one = Math.floor((width - gap * (many - 1)) / many);
  return { many, one, two: one * 2 + gap };
}

/** Draws one value of all runs as a chart; null where no run has it. */
function drawer(names, curves, width) {
  const { one, two } = columns(width);
  const alone = curves.length === 1;
  return ({ title, unit, help, pick, spread, trained, format = number, domain = null, wide = false }) => {
    const series = curves.flatMap(({ rows }, n) =>
      ["train", "eval"].flatMap((split) => {
        const mine = rows.filter((row) => row.split === split);
        const color = alone ? (split === "eval" ? 1 : 0) : colorOf(n);
        const label = alone ? split : `${plain(names[n], 24)} ${split}`;
        const line = (name, value, around) => ({ label: name, split, color, points: mine.map((row) => point(row, names[n], value(row), around?.(row))) });
        const found = [line(label, pick, alone && split === "train" ? spread : null)];
        if (trained && split === "train" && differs(mine)) found.push({ ...line(`${label}, as trained`, trained), split: "trained" });
        return found;
      }),
    );
    if (!wide && !series.some((one) => one.points.some((found) => found.y !== null))) return null;
    const figure = chart({ title, unit, help, series, format, domain, width: (wide ? two : one) - 26, height: wide ? HEIGHT * 2 + ABOVE : HEIGHT });
    if (wide) figure.classList.add("wide");
    return figure;
  };
}

/** The colour of the n-th of the runs that are laid over each other. */
export function colorOf(n) {
  return n % COLORS;
}

function differs(rows) {
  return rows.some((row) => row.trained_reward !== null && Math.abs(row.trained_reward - row.reward) > 1e-9);
}

function point(row, name, value, spread) {
  const y = value ?? null;
  const band = spread === null || spread === undefined || y === null ? {} : { low: y - spread, high: y + spread };
  return { x: row.step, y, ...band, href: address.step(name, row.split, row.step) };
}

/** Every number that the trainer logged, as small charts. */
function trainerCharts(rows, width) {
  const { one } = columns(width);
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row.metrics)))].sort();
  const charts = keys.map((key) => {
    const points = rows.map((row) => ({ x: row.step, y: row.metrics[key] ?? null })).filter((found) => found.y !== null);
    return chart({ title: plain(key, 80), series: [{ label: "", split: "train", color: 0, points }], width: one - 26, height: HEIGHT, format: (value) => number(value, 4) });
  });
  return el("div", { "data-charts": true }, el("div", { class: `grid columns-${columns(width).many}` }, charts));
}
