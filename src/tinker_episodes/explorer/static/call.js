// One tool call: what the model wrote, beside what the tool got.

import { el } from "./dom.js";
import { typeName, valueBlock, written } from "./json.js";
import { textBlock } from "./text.js";

/** A call and, where it was answered, its result's entry; with that one's number, a link to it. */
export function callBlock(call, result, resultAt = null) {
  const got = result?.arguments ?? null;
  return el(
    "div",
    { class: "call" },
    el(
      "p",
      { class: "call-name" },
      el("span", { class: "role" }, "calls"),
      el("code", {}, textBlock(call.name, { mono: true })),
      outcome(result, got, resultAt),
    ),
    typeof call.written === "string" ? whole(call, got) : table(call, got),
  );
}

function outcome(result, got, resultAt) {
  if (!result) return el("span", { class: "badge plain" }, "not answered");
  const text = got === null ? "did not run" : result.error ? "error" : null;
  return [text && el("span", { class: "badge bad" }, text), resultAt !== null && el("a", { class: "quiet", href: `#m${resultAt}` }, `result ${resultAt}`)];
}

/** Arguments that are one text: broken JSON, or what is no object. */
function whole(call, got) {
  return el("div", { class: "arguments-whole" }, textBlock(call.written, { mono: true }), got !== null && valueBlock(got));
}

function table(call, got) {
  const names = [...new Set([...Object.keys(call.written), ...Object.keys(got ?? {})])];
  if (names.length === 0) return el("p", { class: "quiet" }, "without arguments");
  const apart = got !== null && names.some((name) => differs(call.written[name], got[name]));
  return el(
    "table",
    { class: "arguments" },
    el("thead", { class: apart ? null : "unseen" }, el("tr", {}, ["argument", apart || got === null ? "as the model wrote it" : "value", apart && "as the tool got it"].filter(Boolean).map((label) => el("th", { scope: "col" }, label)))),
    el("tbody", {}, names.map((name) => row(name, call.written[name], got?.[name], apart))),
  );
}

function row(name, wrote, got, apart) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, textBlock(name, { mono: true })),
    el("td", {}, wrote === undefined ? el("span", { class: "quiet" }, "not written") : valueBlock(wrote)),
    apart && el("td", { class: differs(wrote, got) ? "other" : null }, got === undefined ? el("span", { class: "quiet" }, "not passed") : [valueBlock(got), el("span", { class: "type" }, typeName(got))]),
  );
}

function differs(wrote, got) {
  return typeName(wrote ?? null) !== typeName(got ?? null) || written(wrote ?? null) !== written(got ?? null);
}
