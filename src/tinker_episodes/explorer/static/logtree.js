// What the trainer logged for people (its log tree), drawn from its structure: no markup of it is used.

import { el } from "./dom.js";
import { valueBlock, written } from "./json.js";
import { textBlock } from "./text.js";
import { content } from "./transcript.js";

const DEEPEST = 40;

/** A node of a log tree as the server gives it: `{kind, text?, children?, rows?, messages?}`. */
export function logTree(node, depth = 0) {
  if (depth > DEEPEST) return el("p", { class: "quiet" }, "…");
  if (node.kind === "text") return textBlock(node.text);
  if (node.kind === "heading") return el("p", { class: "log-heading" }, textBlock(node.text));
  if (node.kind === "table") return rows(node.rows);
  if (node.kind === "conversation") return el("div", { class: "transcript small" }, node.messages.map(message));
  const children = node.children.map((child) => logTree(child, depth + 1));
  if (node.kind === "section") return el("details", { class: "fold log", open: depth < 4 }, el("summary", {}, textBlock(node.text)), children);
  return el("div", { class: "log-block" }, children);
}

function rows(all) {
  return el("table", { class: "log-table" }, el("tbody", {}, all.map((row) => el("tr", {}, row.map((cell) => el("td", {}, textBlock(cell, { mono: true })))))));
}

function message(said) {
  const role = String(said.role ?? "message");
  const kind = { user: "prompt", system: "prompt", assistant: "reply", tool: "result" }[role] ?? "other";
  const { role: _role, content: text, tool_calls: calls, ...rest } = said;
  return el(
    "article",
    { class: `message ${kind}` },
    el("div", { class: "gutter" }, el("span", { class: "role" }, textBlock(role))),
    el(
      "div",
      { class: "said" },
      text === undefined || text === null ? null : content(parts(text), false),
      Array.isArray(calls) && calls.map((call) => el("div", { class: "call" }, valueBlock(call.function ?? call))),
      Object.keys(rest).length > 0 && el("details", { class: "fold" }, el("summary", {}, "more fields"), textBlock(written(rest), { mono: true })),
    ),
  );
}

/** The trainer's content parts as ours; what is no text is shown as JSON. */
function parts(said) {
  if (typeof said === "string") return said;
  if (!Array.isArray(said)) return written(said);
  return said.map((part) => (part?.type === "thinking" || part?.type === "text" ? part : { type: "text", text: written(part) }));
}
