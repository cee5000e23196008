// One rollout: what was said and done, how it was scored, what it changed, and where it was cut.

import { el, reveal } from "../dom.js";
import { count, cutName, number, reward, seconds, shortKey } from "../format.js";
import { hostSteps } from "../hoststeps.js";
import { badge, copy, ending, facts, heading, link, rewards } from "../parts.js";
import { address, changed } from "../router.js";
import { changes, scores } from "../scores.js";
import { citedMessages, messagesOf } from "../evidence.js";
import { plain, textBlock } from "../text.js";
import { tokenScale } from "../tokens.js";
import { transcript } from "../transcript.js";

export const live = false;
export const whole = true; // messages are drawn in slices, which an update in place would lose

export async function load({ key }, query, ask) {
  const tokens = query.get("tokens") === "1";
  const [page, sampled] = await Promise.all([ask("rollout", { key }), tokens ? ask("tokens", { key }) : null]);
  return { ...page, sampled };
}

export function crumbs({ where, rollout }) {
  return [
    [address.run(where.run), plain(where.run)],
    [address.step(where.run, where.split, where.step), `${where.split} step ${where.step}`],
    [address.group(where.group), plain(where.task, 60)],
    [address.rollout(rollout.key), shortKey(rollout.key)],
  ];
}

export function keys(data, { query }, go) {
  const to = (key) => () => key && go(address.rollout(key, { tokens: query.get("tokens") }));
  return {
    ArrowLeft: ["previous rollout of the group", to(data.previous)],
    ArrowRight: ["next rollout of the group", to(data.next)],
    t: ["tokens on or off", () => go(changed({ tokens: query.get("tokens") ? "" : "1" }), { replace: true })],
    e: ["to the end", () => drawn.then(() => reveal(document.getElementById("end"), "end"))],
    l: ["copy the link", () => copyLink()],
  };
}

let drawn = Promise.resolve();

/** Wait for all messages where one of them is to be shown. */
export async function settle() {
  if (location.hash || scrollY > 0) await drawn;
}

export function render(data, { query }) {
  const { rollout } = data;
  const cited = citedMessages(data.scores, data.entries);
  const said = transcript(data.entries, { sampled: data.sampled, cited, toolSets: data.tool_sets });
  drawn = said.drawn;
  return [
    heading(
      ["Rollout ", el("span", { class: "mono" }, shortKey(rollout.key))],
      ending(rollout),
      data.where.superseded && badge("superseded", "plain", "a later attempt played this step again"),
      neighbours(data, query),
    ),
    el(
      "div",
      { class: "columns" },
      el("div", { class: "wide-column" }, toolbar(data), data.kind === "log" ? hostSteps(data.log) : said.list, end(rollout)),
      el("aside", { class: "rail", "aria-label": "Reward and facts" }, rewardCard(data), scores(withMessages(data)), changes(data.changes), factsCard(data)),
    ),
  ];
}

function withMessages({ scores, entries }) {
  return scores.map((score) => ({ ...score, messages: messagesOf(score.evidence, entries) }));
}

function neighbours({ previous, next, rollout }, query) {
  const state = { tokens: query.get("tokens") };
  return el(
    "nav",
    { class: "neighbours", "aria-label": "Rollouts of the group" },
    previous ? link(address.rollout(previous, state), "← previous") : el("span", { class: "quiet" }, "← previous"),
    el("span", { class: "quiet" }, `rollout ${rollout.place + 1}`),
    next ? link(address.rollout(next, state), "next →") : el("span", { class: "quiet" }, "next →"),
  );
}

function toolbar(data) {
  const tokens = data.sampled !== null;
  const any = data.kind === "index";
  return el(
    "div",
    { class: "toolbar" },
    any && el("a", { class: tokens ? "toggle on" : "toggle", href: changed({ tokens: tokens ? "" : "1" }), role: "switch", "aria-checked": String(tokens) }, "Tokens"),
    tokens && any && tokenScale(),
    el("span", { class: "spring" }),
    el("button", { type: "button", on: { click: copyLink } }, "Copy link"),
    el("button", { type: "button", on: { click: () => copy(JSON.stringify(data, null, 2), "JSON") } }, "Copy JSON"),
  );
}

function copyLink() {
  return copy(location.href, "Link");
}

/** Where and why it ended: a cut stands at the place of the cut. */
function end({ status, cut, reason }) {
  if (cut) return el("div", { class: "end cut", id: "end", tabindex: "-1" }, el("b", {}, `Cut here: ${cutName(plain(cut))}. `), CUTS[cut] ?? "", " It is scored as it was left.");
  if (status === "failed") return el("div", { class: "end bad", id: "end", tabindex: "-1" }, el("b", {}, "Failed here. "), "It has no reward. ", textBlock(reason, { mono: true }));
  if (status === "abandoned") return el("div", { class: "end", id: "end", tabindex: "-1" }, el("b", {}, "Dropped here by the trainer. "), "It has no reward. ", reason && textBlock(reason, { mono: true }));
  return el("div", { class: "end", id: "end", tabindex: "-1" }, "The end.");
}

const CUTS = {
  length: "The reply reached the token limit of one turn.",
  parse_error: "The reply was broken.",
  max_turns: "The rollout reached its turn limit.",
  max_tokens: "The rollout reached its token limit.",
  max_sampled_tokens: "The rollout reached its limit of sampled tokens.",
  max_tool_calls: "The rollout reached its limit of tool calls.",
  context_overflow: "The conversation no longer fits the context.",
  rollout_timeout: "The rollout took too long.",
};

function rewardCard({ rollout, where }) {
  return el(
    "section",
    { class: "card reward-card" },
    el("h2", {}, "Reward"),
    el("p", { class: "big" }, rewards(rollout)),
    el("p", { class: "quiet" }, trained(rollout, where)),
  );
}

function trained(rollout, where) {
  if (rollout.reward === null) return "It has no reward, and is never a 0.";
  if (rollout.trained) return rollout.trained_reward === rollout.reward ? "It was trained with this reward." : `It was trained with ${reward(rollout.trained_reward)}, after the trainer's clamp.`;
  return where.split === "eval" ? "It was played for an eval." : "The trainer has not said that it was trained.";
}

function factsCard({ rollout, where, kind }) {
  return el(
    "section",
    { class: "card" },
    el("h2", {}, "Facts"),
    facts([
      ["task", kind === "log" ? plain(where.task, 120) : link(address.task(where), plain(where.task, 120))],
      ["bundle", where.bundle && plain(`${where.bundle} ${where.version}`)],
      ["tags", plain(where.tags.join(", "))],
      ["turns", count(rollout.turns)],
      ...(kind === "log" ? [] : said(rollout)),
      ["sampled tokens", count(rollout.sampled_tokens)],
      ["last observation", rollout.observation_tokens !== null && `${count(rollout.observation_tokens)} tokens`],
      ["sampler step", rollout.sampler_step !== null && number(rollout.sampler_step)],
      ["took", rollout.duration_s !== null && seconds(rollout.duration_s)],
      ["opened", rollout.opened_at && new Date(rollout.opened_at * 1000).toLocaleString()],
      ["key", el("span", { class: "mono path" }, plain(rollout.key))],
    ]),
  );
}

function said(rollout) {
  return [
    ["messages", count(rollout.messages)],
    ["tool calls", count(rollout.tool_calls)],
    ["tool errors", count(rollout.tool_errors)],
    ["format errors", count(rollout.format_errors)],
  ];
}
