// Small marks in tables: a sparkline, and the rewards of a group as dots.

import { svg } from "./dom.js";
import { number } from "./format.js";
import { linear, range } from "./scale.js";

/** The course of a value, without axes; the last one is marked. */
export function sparkline(values, { width = 120, height = 26, label = "" } = {}) {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const [low, high] = range(known);
  const x = linear([0, Math.max(1, known.length - 1)], [3, width - 4]);
  const y = linear([low, high], [height - 4, 4]);
  const points = known.map((value, at) => `${x(at)},${y(value)}`);
  return svg(
    "svg",
    { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${label} from ${number(known[0])} to ${number(known.at(-1))}` },
    known.length > 1 && svg("polyline", { points: points.join(" ") }),
    svg("circle", { r: 2.6, cx: x(known.length - 1), cy: y(known.at(-1)) }),
  );
}

/** Rewards as dots on a scale from `low` to `high`, with the span and the mean. */
export function dots(rewards, [low, high], { width = 180, height = 22 } = {}) {
  const known = rewards.filter((value) => value !== null);
  if (known.length === 0) return null;
  const x = linear([low, high], [7, width - 7]);
  const middle = height / 2;
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const least = Math.min(...known);
  const most = Math.max(...known);
  return svg(
    "svg",
    { class: "dots", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `rewards from ${number(least)} to ${number(most)}` },
    svg("line", { class: "axis", x1: 7, x2: width - 7, y1: middle, y2: middle }),
    least < most && svg("line", { class: "span", x1: x(least), x2: x(most), y1: middle, y2: middle }),
    stacked(known).map(({ value, amount, at }) =>
      svg("circle", { cx: x(value), cy: middle, r: 3.2 + Math.min(3, Math.sqrt(amount) - 1), "data-n": at }, svg("title", {}, `${amount} × ${number(value)}`)),
    ),
    svg("line", { class: "mean", x1: x(mean), x2: x(mean), y1: 2, y2: height - 2 }),
  );
}

function stacked(values) {
  const amounts = new Map();
  for (const value of values) amounts.set(value, (amounts.get(value) ?? 0) + 1);
  return [...amounts].map(([value, amount], at) => ({ value, amount, at }));
}

/** A range for dots that a whole table shares: 0 to 1 where all rewards lie in it. */
export function shared(rows) {
  const all = rows.flat().filter((value) => value !== null);
  const low = Math.min(0, ...all);
  const high = Math.max(1, ...all);
  return [low, high];
}
