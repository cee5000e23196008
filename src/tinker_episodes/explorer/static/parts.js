// Parts that several pages share: headings, facts, badges, links, and the states of a page without data.

import { el } from "./dom.js";
import { cutName, reward } from "./format.js";
import { changed } from "./router.js";
import { plain } from "./text.js";

/** The heading of a page, with what stands beside it. */
export function heading(title, ...beside) {
  return el("div", { class: "heading" }, el("h1", {}, title), beside);
}

/** Names and values in one line. A fact is `[name, value]`; one without a value is left out. */
export function facts(pairs) {
  const there = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return el("dl", { class: "facts" }, there.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export function link(href, ...children) {
  return el("a", { href }, children);
}

/** A small label; `kind` gives its colour: good, bad, cut, live or plain. */
export function badge(text, kind = "plain", title = undefined) {
  return el("span", { class: `badge ${kind}`, title }, text);
}

/** How a rollout ended, where that is not by itself. */
export function ending(rollout) {
  if (rollout.status === "failed") return badge("failed", "bad", plain(rollout.reason ?? ""));
  if (rollout.status === "abandoned") return badge("dropped", "plain", plain(rollout.reason ?? ""));
  if (rollout.cut) return badge(`cut: ${cutName(plain(rollout.cut))}`, "cut");
  return null;
}

/** A reward, and the one that was trained where that is another. */
export function rewards(rollout) {
  const other = rollout.trained_reward !== null && rollout.trained_reward !== undefined && rollout.trained && rollout.trained_reward !== rollout.reward;
  return [reward(rollout.reward), other && el("span", { class: "trained", title: "the reward that was trained" }, ` → ${reward(rollout.trained_reward)}`)];
}

/** Links to the page after and to the first one, of rows that are read page by page. */
export function paging(next, further, { after }, back) {
  if (!next && !after) return null;
  return el(
    "div",
    { class: "paging" },
    next && el("a", { class: "primary", rel: "next", href: changed({ after: next }) }, further),
    after && el("a", { rel: "first", href: changed({ after: "" }) }, back),
  );
}

/** A bar from 0 to 1 behind a share. */
export function meter(share, kind = "plain") {
  return el("meter", { class: kind, min: 0, max: 1, value: share ?? 0, "aria-hidden": "true" });
}

/** What a page shows where there is nothing yet. */
export function empty(title, ...advice) {
  return el("div", { class: "state" }, el("h2", {}, title), advice.map((line) => el("p", {}, line)));
}

/** What a page shows where it can't be shown. */
export function failure(error) {
  const advice = ADVICE[error.status] ?? "Reload the page; if it stays, look at what the explorer printed.";
  return el(
    "div",
    { class: "state failure", role: "alert" },
    el("h1", {}, error.status === 404 ? "Not found" : "This page can't be shown"),
    el("p", {}, plain(error.message, 1000)),
    el("p", {}, advice),
    el("p", {}, link("/", "All runs")),
  );
}

const ADVICE = {
  400: "If it is the address that asks for this, correct it or go back; else look at what the explorer printed.",
  0: "Start it again with the same command: this page comes back by itself.",
  401: "Open the address that the explorer printed at its start, with all that follows the #.",
  404: "It may have been filed in another index. Start from the list of runs.",
};

/** Shown while data comes. */
export function loading() {
  return el("div", { class: "state loading", role: "status" }, el("p", {}, "Reading …"));
}

/** Copy a text, and say so. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    toast(`The browser did not allow copying; ${what.toLowerCase()} is not copied`);
  }
}

let hiding = 0;

/** A short notice at the foot of the page. */
export function toast(text) {
  const node = document.getElementById("toast");
  node.textContent = text;
  node.classList.add("shown");
  clearTimeout(hiding);
  hiding = setTimeout(() => node.classList.remove("shown"), 2500);
}
