// One group: the rollouts of a task at a step, side by side in short; two can be picked to compare.

import { el } from "../dom.js";
import { count, reward, seconds, shortKey } from "../format.js";
import { logTree } from "../logtree.js";
import { dots, shared } from "../marks.js";
import { badge, empty, ending, facts, heading, link, rewards } from "../parts.js";
import { address, changed } from "../router.js";
import { table } from "../table.js";
import { plain } from "../text.js";

export function load({ key }, _query, ask) {
  return ask("group", { key });
}

export function crumbs({ group: { where } }) {
  return [
    [address.run(where.run), plain(where.run)],
    [address.step(where.run, where.split, where.step), `${where.split} step ${where.step}`],
    [address.group(where.group), plain(where.task, 60)],
  ];
}

export function keys({ rollouts }, { query }, go) {
  const picked = pickedOf(rollouts, query);
  return { c: ["compare the picked two", () => picked.length === 2 && go(address.compare(...picked))] };
}

function pickedOf(rollouts, query) {
  const known = new Set(rollouts.map((rollout) => rollout.key));
  return query.getAll("pick").filter((key) => known.has(key)).slice(-2);
}

export function render({ group: { where }, rollouts, kind, log }, { query }) {
  const all = rollouts.map((rollout) => rollout.reward);
  const picked = pickedOf(rollouts, query);
  return [
    heading(plain(where.task, 200), where.superseded && badge("superseded", "plain", "a later attempt played this step again")),
    facts([
      ["rewards", dots(all, shared([all]))],
      ["rollouts", count(rollouts.length)],
      ["bundle", where.bundle && plain(`${where.bundle} ${where.version}`)],
      ["tags", plain(where.tags.join(", "))],
      ["attempt", kind === "index" && count(where.attempt)],
      ["over time", kind === "index" && link(address.task(where), "this task at every step")],
    ]),
    rollouts.length === 0 ? empty("No rollout of this group is filed.") : el("div", { class: "scroller" }, rolloutTable(rollouts, picked)),
    compareBar(rollouts, picked),
    log && [el("h2", {}, "What the trainer logged of this group"), logTree(log)],
  ];
}

function rolloutTable(rollouts, picked) {
  const scorers = [...new Set(rollouts.flatMap((rollout) => Object.keys(rollout.scores)))];
  return table({
    caption: "Rollouts of this group",
    rows: rollouts,
    key: (rollout) => rollout.key,
    href: (rollout) => address.rollout(rollout.key),
    columns: [
      { label: "rollout", class: "name", cell: (rollout) => `${rollout.place + 1} · ${shortKey(rollout.key)}` },
      { label: "reward", number: true, cell: rewards },
      ...scorers.map((name) => ({ label: plain(name, 24), help: plain(name, 400), number: true, cell: (rollout) => reward(rollout.scores[name]) })),
      { label: "ended", cell: (rollout) => ending(rollout) },
      { label: "turns", number: true, cell: (rollout) => count(rollout.turns) },
      { label: "calls", number: true, cell: (rollout) => count(rollout.tool_calls) },
      { label: "errors", number: true, cell: (rollout) => count(rollout.tool_errors + rollout.format_errors) },
      { label: "tokens", number: true, cell: (rollout) => count(rollout.sampled_tokens), help: "sampled" },
      { label: "took", number: true, cell: (rollout) => seconds(rollout.duration_s) },
      { label: "compare", class: "pick", cell: (rollout) => pick(rollout, picked) },
    ],
  });
}

function pick(rollout, picked) {
  const on = picked.includes(rollout.key);
  const next = on ? picked.filter((key) => key !== rollout.key) : [...picked.slice(-1), rollout.key];
  return el("a", { class: on ? "toggle on" : "toggle", href: changed({ pick: next }), role: "button", "aria-pressed": String(on), "aria-label": `pick rollout ${rollout.place + 1} to compare` }, on ? "✓" : "+");
}

function compareBar(rollouts, picked) {
  if (rollouts.length < 2) return null;
  if (picked.length === 2) return el("p", {}, el("a", { class: "primary", href: address.compare(...picked) }, "Compare the two"));
  const [low, high] = extremes(rollouts);
  return el("p", { class: "quiet" }, "Pick two rollouts to compare", low && [", or ", link(address.compare(low.key, high.key), "compare the lowest with the highest reward")], ".");
}

function extremes(rollouts) {
  const scored = rollouts.filter((rollout) => rollout.reward !== null).sort((a, b) => a.reward - b.reward);
  return scored.length > 1 && scored[0].reward < scored.at(-1).reward ? [scored[0], scored.at(-1)] : [null, null];
}
