// One task over time: its rollouts across all steps, in one run or in all.

import { chart } from "../chart.js";
import { el } from "../dom.js";
import { count, reward } from "../format.js";
import { dots, shared } from "../marks.js";
import { badge, empty, facts, heading, paging } from "../parts.js";
import { address, changed } from "../router.js";
import { plain } from "../text.js";

export const resizes = true;

export function load(_params, query, ask) {
  return ask("task", { bundle: query.get("bundle"), task: query.get("task"), run: query.get("run"), after: query.get("after") });
}

export function crumbs(_data, { query }) {
  const where = { bundle: query.get("bundle"), task: query.get("task"), run: query.get("run") };
  const above = where.run ? [[address.run(where.run), plain(where.run)]] : [];
  return [...above, [address.task(where), plain(where.task ?? "task", 60)]];
}

export function render({ groups, next }, { query }) {
  const title = heading(plain(query.get("task") ?? "", 200), runChoice(groups, query));
  if (groups.length === 0) return [title, empty("No rollout of this task is filed.", "It is named as its bundle names it; the search finds tasks too.")];
  const rollouts = groups.flatMap((one) => one.rollouts);
  const range = shared(groups.map(({ group }) => group.rewards));
  return [
    title,
    facts([["steps", next || query.get("after") ? `${stepsOf(groups)}, of more` : stepsOf(groups)], ["groups", count(groups.length)], ["rollouts", count(rollouts.length)], ["bundle", plain(query.get("bundle") ?? "")]]),
    el("div", { "data-charts": true }, curve(groups)),
    el("h2", {}, "Rollouts by step"),
    paging(next, "Later steps", { after: query.get("after") }, "Back to the first steps"),
    el(
      "table",
      {},
      el("caption", { class: "unseen" }, "Rollouts by step, the latest first"),
      el("thead", {}, el("tr", {}, ["step", "rewards", "mean", "rollouts"].map((label) => el("th", { scope: "col", class: label === "mean" ? "num" : null }, label)))),
      el("tbody", {}, [...groups].reverse().map((one) => row(one, range, !query.get("run")))),
    ),
  ];
}

function stepsOf(groups) {
  const steps = groups.map(({ group }) => group.where.step);
  return [...new Set([Math.min(...steps), Math.max(...steps)])].join("–");
}

function runChoice(groups, query) {
  const run = query.get("run") ?? groups[0]?.group.where.run;
  if (!run) return null;
  return query.get("run") ? el("a", { class: "toggle", href: changed({ run: "" }) }, "Show all runs") : el("a", { class: "toggle", href: changed({ run }) }, `Show ${plain(run, 40)} alone`);
}

function row({ group, rollouts }, range, named) {
  const { where } = group;
  return el(
    "tr",
    { "data-key": where.group, class: where.split },
    el("td", {}, el("a", { href: address.group(where.group), "data-row": true }, `${named ? `${plain(where.run, 40)} ` : ""}${where.split} ${where.step}`), where.superseded && [" ", badge("superseded", "plain", "a later attempt played this step again")]),
    el("td", { class: "spark" }, dots(group.rewards, range)),
    el("td", { class: "num" }, reward(group.mean)),
    el("td", { class: "rollout-links" }, rollouts.map((rollout) => el("a", { class: `pill ${kindOf(rollout)}`, href: address.rollout(rollout.key), title: plain(rollout.cut ?? rollout.status) }, rollout.reward === null ? rollout.status : reward(rollout.reward)))),
  );
}

function kindOf(rollout) {
  if (rollout.status === "failed" || rollout.status === "abandoned") return "bad";
  return rollout.cut ? "cut" : "plain";
}

function curve(groups) {
  const standing = groups.map(({ group }) => group).filter((group) => !group.where.superseded);
  const lines = new Map();
  for (const group of standing) {
    const name = `${group.where.run}/${group.where.split}`;
    lines.set(name, [...(lines.get(name) ?? []), group]);
  }
  const runs = [...new Set(standing.map((group) => group.where.run))];
  return chart({
    title: "Reward",
    help: "mean of the group; the band goes from its lowest to its highest rollout",
    width: Math.max(940, document.documentElement.clientWidth - 64) - 26,
    height: 200,
    domain: [0, 1],
    series: [...lines.values()].slice(0, 16).map((found) => series(found, runs)),
  });
}

function series(groups, runs) {
  const { run, split } = groups[0].where;
  const alone = runs.length === 1;
  return {
    label: alone ? split : `${plain(run, 24)} ${split}`,
    split,
    color: alone ? (split === "eval" ? 1 : 0) : runs.indexOf(run) % 8,
    points: groups.map((group) => ({ x: group.where.step, y: group.mean, low: group.low ?? undefined, high: group.high ?? undefined, href: address.group(group.where.group) })),
  };
}
