// The reward broken down by scorer, and what the episode changed in its universe.

import { el } from "./dom.js";
import { reward } from "./format.js";
import { differences, valueBlock } from "./json.js";
import { textBlock } from "./text.js";

/** One card a scorer: value, explanation, links to what it cites, and its evidence. */
export function scores(found) {
  return found.map((score, at) =>
    el(
      "section",
      { class: "card score", id: `score-${at}`, tabindex: "-1" },
      el("h2", {}, textBlock(score.name), el("span", { class: "value-of" }, reward(score.value))),
      score.explanation && textBlock(score.explanation),
      score.messages.length > 0 && el("p", { class: "cites" }, "rests on ", score.messages.map((message, n) => [n > 0 && " ", el("a", { class: "pill plain", href: `#m${message}` }, `message ${message}`)])),
      unlinked(score).length > 0 && el("details", { class: "fold", open: size(score.evidence) < 400 }, el("summary", {}, "Evidence"), evidence(unlinked(score))),
    ),
  );
}

/** The evidence that is not shown as links. */
function unlinked({ evidence, messages }) {
  return Object.entries(evidence).filter(([name]) => messages.length === 0 || (name !== "messages" && name !== "calls"));
}

function evidence(pairs) {
  return el("dl", { class: "evidence" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, textBlock(name, { mono: true })), el("dd", {}, valueBlock(value, { first: 800 })))));
}

function size(value) {
  return JSON.stringify(value).length;
}

/** Records that the episode made, changed or deleted, field by field. */
export function changes(found) {
  if (found.length === 0) return null;
  return el("section", { class: "card" }, el("h2", {}, "Changed in the universe"), found.slice(0, 200).map(change), found.length > 200 && el("p", { class: "quiet" }, `and ${found.length - 200} more records`));
}

function change({ table, key, before, after }) {
  const kind = before === null ? "made" : after === null ? "deleted" : "changed";
  return el(
    "details",
    { class: "fold", open: found(before, after) <= 6 },
    el("summary", {}, el("span", { class: `badge ${{ made: "good", deleted: "bad", changed: "plain" }[kind]}` }, kind), " ", textBlock(`${table} / ${key}`, { mono: true })),
    kind === "changed" ? el("dl", { class: "diff" }, differences(before, after).map(field)) : valueBlock(before ?? after),
  );
}

function found(before, after) {
  return before === null || after === null ? Object.keys(before ?? after ?? {}).length : differences(before, after).length;
}

function field([path, before, after]) {
  return el("div", {}, el("dt", {}, textBlock(path || "value", { mono: true })), el("dd", {}, before !== undefined && el("del", {}, valueBlock(before)), after !== undefined && el("ins", {}, valueBlock(after))));
}
