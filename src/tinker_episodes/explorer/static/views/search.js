// Search: text in messages, calls and results, with filters, as one types.

import { el } from "../dom.js";
import { plural, reward, shortKey } from "../format.js";
import { empty, ending, heading, paging } from "../parts.js";
import { address, search } from "../router.js";
import { plain, visible } from "../text.js";

const FIELDS = ["q", "run", "split", "from", "to", "task", "tag", "tool", "low", "high", "cut", "status", "error"];
const PAUSE_MS = 180;

export async function load(_params, query, ask) {
  const asked = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const any = FIELDS.some((name) => asked[name] !== "");
  const [{ runs }, labels, found] = await Promise.all([ask("runs"), ask("labels"), any ? ask("search", { ...asked, after: query.get("after") }).catch(refused) : null]);
  return { runs: runs.filter((run) => run.kind === "index"), labels, asked, found, after: query.get("after") };
}

/** What can't be searched for, such as a quotation mark alone, is said beside the form: it may be half typed. */
function refused(error) {
  if (error.status !== 400) throw error;
  return { refused: error.message };
}

export function crumbs() {
  return [["/search", "Search"]];
}

export function settle() {
  document.querySelector("[data-search]")?.focus();
}

export function render(data) {
  return [heading("Search"), form(data), results(data)];
}

function form({ runs, labels, asked }) {
  const field = (name, label, attrs = {}) => el("label", {}, label, el("input", { name, value: asked[name], autocomplete: "off", spellcheck: "false", ...attrs }));
  const pick = (name, label, options) => el("label", {}, label, el("select", { name }, options.map(([value, text]) => el("option", { value, "data-key": value, selected: value === asked[name] }, text))));
  const names = (kind) => labels[kind].map((name) => [name, plain(name, 60)]);
  return el(
    "form",
    { class: "search", role: "search", on: { input: typed, submit: now } },
    el("label", { class: "wide" }, "Text", el("input", { type: "search", name: "q", value: asked.q, "data-search": true, placeholder: 'words in messages, calls and results; "a phrase"; begin*', autocomplete: "off", spellcheck: "false" })),
    pick("run", "Run", [["", "all"], ...runs.map((run) => [run.name, plain(run.name, 60)])]),
    pick("split", "Split", [["", "all"], ["train", "train"], ["eval", "eval"]]),
    field("from", "From step", { type: "number", min: 0 }),
    field("to", "To step", { type: "number", min: 0 }),
    field("task", "Task"),
    pick("tag", "Tag", [["", "any"], ...names("tag")]),
    pick("tool", "Tool", [["", "any"], ...names("tool")]),
    field("low", "Reward from", { type: "number", step: "any" }),
    field("high", "to", { type: "number", step: "any" }),
    pick("cut", "Cut", [["", "any or none"], ["any", "any cut"], ...names("cut")]),
    pick("status", "Ended", [["", "in any way"], ["finished", "by itself"], ["cut", "cut"], ["failed", "failed"], ["abandoned", "dropped"]]),
    pick("error", "Errors", [["", "any or none"], ["tool", "tool errors"], ["format", "format errors"]]),
  );
}

let waiting = 0;

function typed(event) {
  clearTimeout(waiting);
  const form = event.currentTarget;
  waiting = setTimeout(() => openResults(form), PAUSE_MS);
}

function now(event) {
  event.preventDefault();
  clearTimeout(waiting);
  openResults(event.currentTarget);
}

function openResults(form) {
  const values = Object.fromEntries(FIELDS.map((name) => [name, form.elements[name].value.trim()]));
  const href = `/search${search(values)}`;
  if (href === location.pathname + location.search) return;
  form.dispatchEvent(Object.assign(new CustomEvent("open-page", { bubbles: true, detail: href }), { replace: true }));
}

function results({ found, after }) {
  if (found === null) return empty("Nothing is asked yet.", "Type some words, or set a filter. Results open at their place in the transcript.");
  if (found.refused) return empty("This can't be searched for.", plain(found.refused, 300));
  if (found.hits.length === 0) return empty("Nothing is found.", "Whole words are found, in any order; `begin*` finds all that begin so. Take a filter away, or try fewer words.", paging(found.next, "Look further", { after }, "Back to the first results"));
  return [
    el("p", { class: "quiet", role: "status" }, found.next ? `The last ${found.hits.length} rollouts; there are more` : plural(found.hits.length, "rollout")),
    el("ol", { class: "results" }, found.hits.map(result)),
    paging(found.next, "More results", { after }, "Back to the first results"),
  ];
}

function result(hit) {
  const { where } = hit;
  return el(
    "li",
    { "data-key": `${hit.rollout}-${hit.entry}` },
    el(
      "div",
      { class: "result-head" },
      el("a", { href: address.rollout(hit.rollout, {}, hit.entry), "data-row": true }, `${plain(where.task, 80)} · ${shortKey(hit.rollout)}`),
      el("span", { class: "quiet" }, `${plain(where.run)} · ${where.split} step ${where.step}`),
      el("span", { class: "num" }, reward(hit.reward)),
      ending(hit),
    ),
    hit.snippet && el("p", { class: "snippet", dir: "auto" }, hit.entry !== null && el("span", { class: "quiet" }, `${hit.kind} ${hit.entry} `), marked(hit.snippet, hit.marks)),
  );
}

/** The snippet with the words that were asked for marked. Marks count code points, as Python does. */
function marked(text, marks) {
  const characters = Array.from(text);
  const parts = [];
  let from = 0;
  for (const [start, end] of marks) {
    parts.push(visible(characters.slice(from, start).join("")), el("mark", {}, visible(characters.slice(start, end).join(""))));
    from = end;
  }
  return [...parts, visible(characters.slice(from).join(""))];
}
