// A rollout as the trainer's own summaries have it: its steps in numbers, and what it logged.

import { el } from "./dom.js";
import { count, number, reward } from "./format.js";
import { written } from "./json.js";
import { logTree } from "./logtree.js";
import { textBlock } from "./text.js";

/** The steps of a host rollout, its metrics, and its part of the log tree where there is one. */
export function hostSteps({ steps, metrics, log }) {
  return el(
    "div",
    { class: "host-rollout" },
    el("p", { class: "quiet" }, "The trainer wrote this rollout's numbers and logs; it does not keep what was said, unless the environment logged it."),
    el("h2", {}, "Turns"),
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ["turn", "observation", "sampled", "reward", "metrics", "logs"].map((label, at) => el("th", { scope: "col", class: at < 4 ? "num" : null }, label)))),
      el("tbody", {}, steps.map(row)),
    ),
    Object.keys(metrics).length > 0 && [el("h2", {}, "Metrics"), pairs(metrics)],
    log && [el("h2", {}, "What the trainer logged"), logTree(log)],
  );
}

function row(step, at) {
  return el(
    "tr",
    {},
    el("td", { class: "num" }, at + 1),
    el("td", { class: "num" }, `${count(step.ob_len)} tokens`),
    el("td", { class: "num" }, `${count(step.ac_len)} tokens`),
    el("td", { class: "num" }, reward(step.reward)),
    el("td", {}, pairs(step.metrics ?? {})),
    el("td", {}, pairs(step.logs ?? {})),
  );
}

function pairs(values) {
  return el("dl", { class: "evidence" }, Object.entries(values).map(([name, value]) => el("div", {}, el("dt", {}, textBlock(name, { mono: true })), el("dd", {}, typeof value === "number" ? number(value) : textBlock(written(value), { mono: true, first: 600 })))));
}
