// A transcript: prompts, replies with their calls, results and notes, one article an entry.

import { callBlock } from "./call.js";
import { el } from "./dom.js";
import { plural } from "./format.js";
import { picture } from "./pictures.js";
import { textBlock } from "./text.js";
import { tokenLine } from "./tokens.js";

const SLICE = 80;

/** The articles of a transcript, drawn in slices so that the first are there at once. */
export function transcript(entries, { sampled = null, cited = new Map(), toolSets = {} }) {
  const list = el("div", { class: "transcript" });
  const context = { results: pairResults(entries), turns: pairTurns(entries, sampled?.turns ?? []), pieces: sampled?.pieces ?? {}, tokens: sampled !== null, cited, toolSets };
  let at = 0;
  const slice = (until) => {
    const batch = document.createDocumentFragment();
    for (const end = Math.min(entries.length, until); at < end; at++) batch.append(article(entries[at], at, entries, context));
    list.append(batch);
  };
  slice(SLICE);
  const rest = async () => {
    while (at < entries.length) {
      await new Promise(requestAnimationFrame);
      slice(at + SLICE * 12);
    }
  };
  return { list, drawn: at < entries.length ? rest() : Promise.resolve() };
}

/** The number of each reply's call → the number of its result: results follow in the calls' order. */
export function pairResults(entries) {
  const pairs = new Map();
  entries.forEach((entry, at) => {
    if (entry.kind !== "reply") return;
    const results = [];
    for (let next = at + 1; next < entries.length && entries[next].kind !== "reply"; next++) {
      if (entries[next].kind === "result") results.push(next);
    }
    entry.calls.forEach((_, n) => n < results.length && pairs.set(`${at}:${n}`, results[n]));
  });
  return pairs;
}

/** The number of each reply → its turn: the n-th reply is the n-th sampled turn. */
function pairTurns(entries, turns) {
  const replies = entries.map((entry, at) => (entry.kind === "reply" ? at : -1)).filter((at) => at >= 0);
  return new Map(replies.map((at, n) => [at, turns[n]]));
}

const NAMES = { prompt: "prompt", reply: "model", result: "result", note: "note" };

function article(entry, at, entries, context) {
  const kind = entry.kind in NAMES ? entry.kind : "other";
  const bad = (kind === "result" && entry.error) || kind === "note";
  return el(
    "article",
    { id: `m${at}`, class: `message ${kind}${bad ? " error" : ""}${context.cited.has(at) ? " cited" : ""}`, tabindex: "-1", "data-stop": true, "aria-label": `message ${at}: ${NAMES[kind] ?? kind}` },
    el("div", { class: "gutter" }, el("a", { href: `#m${at}`, class: "place", title: "link to this message" }, at), el("span", { class: "role" }, NAMES[kind] ?? kind)),
    el("div", { class: "said" }, body(entry, at, entries, context), citations(context.cited.get(at))),
  );
}

function body(entry, at, entries, context) {
  if (entry.kind === "prompt") return prompt(entry, at > 0, context.toolSets[entry.tool_set] ?? []);
  if (entry.kind === "reply") return reply(entry, at, entries, context);
  if (entry.kind === "result") return [el("p", { class: "result-of" }, entry.error ? "error of " : "of ", el("code", {}, textBlock(entry.name, { mono: true }))), content(entry.content, true)];
  return textBlock(entry.text ?? JSON.stringify(entry), { mono: entry.kind !== "note" });
}

function prompt(entry, later, specs) {
  return [
    entry.system_prompt && fold(later ? "System prompt (changed)" : "System prompt", textBlock(entry.system_prompt)),
    entry.tools?.length > 0 && fold(plural(entry.tools.length, "tool"), el("ul", { class: "tools" }, entry.tools.map((name, at) => tool(name, specs[at])))),
    textBlock(entry.text),
  ];
}

/** A tool as the model was told of it; its name alone where no more is known. */
function tool(name, spec) {
  return el(
    "li",
    {},
    el("code", {}, textBlock(name, { mono: true })),
    spec && [textBlock(spec.description), fold("parameters", textBlock(JSON.stringify(spec.parameters, null, 2), { mono: true }))],
  );
}

function reply(entry, at, entries, { results, turns, pieces, tokens }) {
  const turn = turns.get(at);
  const calls = entry.calls.map((call, n) => callBlock(call, entries[results.get(`${at}:${n}`)], results.get(`${at}:${n}`)));
  const said = tokens && turn ? tokenLine(turn, pieces) : content(entry.content, false);
  const nothing = !tokens && isEmpty(entry.content) && calls.length === 0 && entry.malformed.length === 0;
  return [
    said,
    nothing && el("p", { class: "quiet" }, "The model said nothing."),
    tokens && !turn && el("p", { class: "quiet" }, "The trainer got no tokens of this reply."),
    calls,
    entry.malformed.map((bad) => el("div", { class: "malformed" }, el("p", {}, "A call that could not be read: ", textBlock(bad.error)), textBlock(bad.text, { mono: true }))),
  ];
}

function isEmpty(said) {
  return typeof said === "string" ? said.trim() === "" : said.length === 0;
}

/** A message's content: a text, or parts of text, thinking and images. */
export function content(said, mono) {
  if (typeof said === "string") return said.trim() === "" ? null : textBlock(said, { mono });
  return said.map((part) => {
    if (part.type === "thinking") return el("details", { class: "thinking", open: part.thinking.length < 1200 }, el("summary", {}, "Thinking"), textBlock(part.thinking));
    if (part.type === "image") return picture(part);
    return textBlock(String(part.text ?? JSON.stringify(part)), { mono });
  });
}

export function fold(label, ...children) {
  return el("details", { class: "fold" }, el("summary", {}, label), children);
}

function citations(names) {
  return names && el("p", { class: "citation" }, "Evidence of ", names.map((name, at) => [at > 0 && ", ", el("a", { href: `#score-${name.at}` }, textBlock(name.name))]));
}
