// Two rollouts of one task, aligned by their calls, opened at the first place where they differ.

import { align, stepsOf } from "../align.js";
import { callBlock } from "../call.js";
import { el, kept, reveal } from "../dom.js";
import { plural, reward, shortKey } from "../format.js";
import { empty, ending, heading, link, rewards } from "../parts.js";
import { address } from "../router.js";
import { plain, textBlock } from "../text.js";
import { content, fold, pairResults } from "../transcript.js";
import { reload as renewed } from "./rollout.js";

export const whole = true;

export async function load(_params, query, ask) {
  const [a, b] = [query.get("a"), query.get("b")];
  if (!a || !b) return { a: null, b: null, pairs: [] };
  const both = await Promise.all([ask("rollout", { key: a }), ask("rollout", { key: b })]);
  const steps = both.map(({ entries }) => stepsOf(entries, pairResults(entries)));
  return { a: both[0], b: both[1], pairs: align(...steps) };
}

export async function reload(data, ask) {
  if (!data.a) return data;
  const [a, b] = await Promise.all([renewed(data.a, ask), renewed(data.b, ask)]);
  return { ...data, a, b };
}

export function crumbs({ a, b }) {
  if (!a) return [["/compare", "Compare"]];
  const { rollout, where } = a;
  return [
    [address.run(where.run), plain(where.run)],
    [address.group(where.group), plain(where.task, 60)],
    [address.compare(rollout.key, b.rollout.key), "compare"],
  ];
}

export function keys({ a, b }, _page, go) {
  return {
    d: ["the next difference", () => nextDifference()],
    s: ["swap the two", () => a && go(address.compare(b.rollout.key, a.rollout.key), { replace: true })],
  };
}

/** Open at the first difference. */
export async function settle() {
  if (!location.hash) await nextDifference();
}

function nextDifference() {
  const places = [...document.querySelectorAll("[data-difference]")];
  const here = document.activeElement;
  const follows = (place) => here.compareDocumentPosition(place) === Node.DOCUMENT_POSITION_FOLLOWING;
  const next = places.find(follows) ?? places[0];
  if (!next) return;
  return reveal(next, "center");
}

export function render({ a, b, pairs }, { updating }) {
  if (!a) return [heading("Compare"), empty("Two rollouts are needed.", "Open a group, and pick two of its rollouts there.")];
  const differing = pairs.filter((pair) => !pair.same).length;
  return [
    heading("Compare", el("span", { class: "quiet" }, sameTask(a, b), differing === 0 ? "They do the same." : `${plural(differing, "place")} of ${pairs.length} differ.`)),
    el("div", { class: "compare" }, side(a, b), side(b, a), kept(el("div", { class: "pairs" }, !updating && pairRows(pairs, [a.rollout.key, b.rollout.key])), pairs)),
  ];
}

function sameTask(a, b) {
  return a.where.task === b.where.task && a.where.bundle === b.where.bundle ? "" : "They are of two tasks. ";
}

const MOST_SCORES = 6;

function side({ rollout, scores, where }, other) {
  return el(
    "section",
    { class: "side" },
    el("h2", {}, link(address.rollout(rollout.key), `${rollout.place + 1} · ${shortKey(rollout.key)}`), " ", ending(rollout)),
    el("p", {}, el("b", { class: "num" }, rewards(rollout)), el("span", { class: "quiet" }, ` ${where.split} step ${where.step}`)),
    scores.length > 1 && scoreLine(scores, other.rollout.scores),
  );
}

/** The scores in one line, those first in which the other rollout differs. */
function scoreLine(scores, others) {
  const differing = scores.filter((score) => score.value !== others[score.name]);
  const first = [...differing, ...scores.filter((score) => score.value === others[score.name])].slice(0, MOST_SCORES);
  const more = scores.length - first.length;
  return el("p", { class: "quiet" }, first.map((score, at) => [at > 0 && ", ", `${plain(score.name, 40)} ${reward(score.value)}`]), more > 0 && ` and ${more} more`);
}

function pairRows(pairs, keys) {
  const first = pairs.findIndex((pair) => !pair.same);
  return runsOf(pairs).map((stretch) => rows(stretch, pairs, first, keys));
}

/** Stretches of the same steps, to be folded, and single differing ones: `[from, to]`. */
function runsOf(pairs) {
  const found = [];
  pairs.forEach((pair, at) => {
    const last = found.at(-1);
    if (pair.same && last && pairs[last[0]].same) last[1] = at + 1;
    else found.push([at, at + 1]);
  });
  return found;
}

function rows([from, to], pairs, first, keys) {
  if (!pairs[from].same) return pairRow(pairs[from], from, from === first, keys);
  const same = pairs.slice(from, to).map((pair, at) => pairRow(pair, from + at, false, keys));
  if (to - from === 1) return same;
  return el("details", { class: "same-steps" }, el("summary", {}, `${plural(to - from, "step")} the same`), same);
}

function pairRow({ a, b, same }, at, first, keys) {
  return el(
    "div",
    { class: `pair ${same ? "same" : "different"}${first ? " first" : ""}`, id: `p${at}`, tabindex: "-1", "data-stop": true, "data-difference": !same },
    first && el("p", { class: "first-label" }, "The first difference"),
    cell(a, keys[0]),
    cell(b, keys[1]),
  );
}

function cell(step, key) {
  if (step === null) return el("div", { class: "cell nothing" }, "nothing here");
  return el("div", { class: `cell ${step.kind}` }, el("a", { class: "place", href: address.rollout(key, {}, step.at), title: "this message in its rollout" }, step.at), step.kind === "call" ? callCell(step) : saidCell(step));
}

function callCell({ entry, call, first, result }) {
  const said = first && content(entry.content, false);
  return [said, callBlock(call, result), result && el("div", { class: result.error ? "answer error" : "answer" }, content(result.content, true))];
}

function saidCell({ kind, entry }) {
  if (kind === "reply") return [content(entry.content, false), entry.malformed.map((bad) => el("p", { class: "malformed" }, textBlock(bad.error)))];
  return [entry.system_prompt && fold("System prompt", textBlock(entry.system_prompt)), textBlock(entry.text)];
}
