// Text that a model or a tool wrote, shown as it is: characters that would be invisible, or that would
// turn the reading direction, are written out.

import { el, kept } from "./dom.js";

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

/** How a hidden character is written: as an escape, or by its code point. */
function written(character) {
  const code = character.codePointAt(0).toString(16);
  return code.length < 3 ? `\\x${code.padStart(2, "0")}` : `U+${code.toUpperCase().padStart(4, "0")}`;
}

/** The text as nodes, with hidden characters as marked spans. */
export function visible(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match[0] === "\r" && text[match.index + 1] === "\n") continue;
    if (match.index > from) nodes.push(document.createTextNode(text.slice(from, match.index)));
    const code = `U+${match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    nodes.push(el("span", { class: "hidden-character", title: code }, written(match[0])));
    from = match.index + match[0].length;
  }
  if (from < text.length) nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

/** The text as one string, with hidden characters written out: for titles, labels and cells. */
export function plain(text, most = 200) {
  const short = text.length > most ? `${cutAt(text, most)}…` : text;
  return short.replace(HIDDEN, written);
}

const FIRST = 4000;
const MORE = 100000;
const LINES = 60;

/**
 * A block of text. A long one shows its beginning and a button for more, 100,000 characters at a time:
 * a line of 10 MB must not stop the page.
 */
export function textBlock(text, { mono = false, first = FIRST } = {}) {
  const block = el("div", { class: mono ? "text mono" : "text", dir: "auto" });
  const end = shownFirst(text, first);
  block.append(...visible(text.slice(0, end)));
  if (end === text.length) return block;
  block.append(moreButton(text, end));
  return kept(block, text);
}

function moreButton(text, shown) {
  let at = shown;
  const button = el("button", { class: "more", type: "button", on: { click: more } });
  label();
  return button;

  function label() {
    const rest = text.length - at;
    button.textContent = rest > MORE ? `Show ${size(MORE)} more of ${size(rest)}` : `Show the other ${size(rest)}`;
  }

  function more() {
    const to = at + cutAt(text.slice(at, at + MORE), MORE).length;
    button.before(el("span", { class: "chunk" }, visible(text.slice(at, to))));
    at = to;
    if (at < text.length) label();
    else button.remove();
  }
}

function shownFirst(text, first) {
  let end = text.length > first * 1.25 ? cutAt(text, first).length : text.length;
  let line = -1;
  for (let lines = 0; lines < LINES; lines++) {
    line = text.indexOf("\n", line + 1);
    if (line < 0 || line >= end) return end;
  }
  return text.length - line < 400 ? end : Math.min(end, line);
}

/** The first characters, never half of a surrogate pair. */
function cutAt(text, most) {
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

function size(characters) {
  if (characters < 1000) return `${characters} characters`;
  if (characters < 1e6) return `${(characters / 1000).toFixed(characters < 1e4 ? 1 : 0)} k characters`;
  return `${(characters / 1e6).toFixed(1)} M characters`;
}
