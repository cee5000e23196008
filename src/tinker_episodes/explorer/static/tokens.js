// The tokens of a reply, coloured by the probability that the model gave them.

import { el } from "./dom.js";
import { plain, visible } from "./text.js";

const MOST = 20000;

const draws = new WeakMap();
const inView = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (!isIntersecting) continue;
    inView.unobserve(target);
    target.replaceWith(draws.get(target)());
  }
});

/**
 * The sampled tokens of one turn, in place of what was said once that comes into view: a long rollout
 * has hundreds of thousands.
 */
export function tokensInView(said, turn, pieces, first) {
  const place = el("div", {}, said);
  draws.set(place, () => tokenLine(turn, pieces, first));
  inView.observe(place);
  return place;
}

/** The sampled tokens of one turn as spans; a line for what came before them. */
function tokenLine(turn, pieces, first) {
  const { sampled, logprobs, observation, extends: extended } = turn;
  const shown = sampled.slice(0, MOST);
  return el(
    "div",
    { class: "tokens" },
    el("p", { class: "quiet" }, `${sampled.length} sampled after ${observation.length} ${extended ? "further " : ""}prompt tokens${extended || first ? "" : ": the history was rendered anew"}${sampled.length > MOST ? `; the first ${MOST} are shown` : ""}`),
    el("div", { class: "text mono" }, shown.map((token, at) => span(token, logprobs?.[at], pieces))),
  );
}

function span(token, logprob, pieces) {
  const text = pieces[token];
  const known = typeof logprob === "number" && Number.isFinite(logprob);
  const probability = known ? Math.exp(logprob) : null;
  const title = `token ${token}${known ? `, probability ${(probability * 100).toPrecision(3)} %, logprob ${logprob.toFixed(3)}` : ", no logprob"}`;
  const children = text === undefined ? [`[${token}]`] : text.split("\n").map((part, n) => [n > 0 && [lineEnd(), "\n"], visible(part)]);
  return el("span", { class: `token ${known ? `p${level(probability)}` : "p-none"}`, title: plain(title) }, children);
}

/** A sign for a line's end: a token may be nothing else. */
function lineEnd() {
  return el("span", { class: "quiet" }, "\u23ce");
}

/** Ten levels, finer where a token was unlikely. */
export function level(probability) {
  const bounds = [0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.99];
  return bounds.filter((bound) => probability >= bound).length;
}

/** What the colours mean. */
export function tokenScale() {
  const words = ["< 1 %", "", "", "", "", "50 %", "", "", "", "≥ 99 %"];
  return el("span", { class: "scale", role: "img", "aria-label": "colours from improbable to certain" }, words.map((word, at) => el("span", { class: `token p${at}` }, word || "\u2002")));
}
