// One run over its steps, with other runs laid over it.

import { run as charts } from "../curves.js";
import { el } from "../dom.js";
import { count, number, percent, reward } from "../format.js";
import { badge, empty, facts, heading } from "../parts.js";
import { address, changed } from "../router.js";
import { stepRows } from "../steps.js";
import { table } from "../table.js";
import { plain } from "../text.js";

export const resizes = true;
const STEPS = 30;

export async function load({ run }, query, ask) {
  const names = [run, ...query.getAll("with").filter((name) => name !== run)];
  const [{ runs }, ...curves] = await Promise.all([ask("runs"), ...names.map((name) => curve(name, ask))]);
  const metrics = query.get("trainer") ? (await ask("metrics", { run })).rows : null;
  const found = runs.find((one) => one.name === run);
  if (!found) throw Object.assign(new Error(`There is no run ${run}.`), { status: 404 });
  return { run: found, runs, names, curves, metrics };
}

async function curve(name, ask) {
  return { rows: stepRows(await ask("steps", { run: name })) };
}

export function crumbs({ run }) {
  return [[address.run(run.name), plain(run.name)]];
}

export function render(data, { query }) {
  const { run, curves } = data;
  const rows = curves[0].rows;
  return [
    heading(plain(run.name), run.live && badge("live", "live")),
    facts([
      ["plays", run.kind === "log" ? "a cookbook run without a bundle" : plain(run.bundles.join(", "))],
      ["last step", number(run.last_step)],
      ["rollouts", count(run.rollouts)],
      ["attempts", count(run.attempts)],
      ["latest reward", reward(run.reward)],
      ["log path", el("span", { class: "path" }, plain(run.path, 400))],
    ]),
    overlays(data, query),
    rows.length === 0
      ? empty("No rollout is filed yet.", "Curves appear with the first rollouts; this page updates by itself.")
      : [charts(data, pageWidth()), stepTable(run.name, rows, query)],
    trainer(data, query),
  ];
}

function pageWidth() {
  return Math.max(940, document.documentElement.clientWidth - 64);
}

function overlays({ run, runs, names }, query) {
  const others = runs.filter((one) => one.name !== run.name);
  if (others.length === 0) return null;
  const chosen = query.getAll("with");
  const chips = others.slice(0, 40).map((one) => {
    const on = chosen.includes(one.name);
    const next = on ? chosen.filter((name) => name !== one.name) : [...chosen, one.name];
    const color = names.indexOf(one.name);
    return el("a", { class: on ? `toggle on c${color}` : "toggle", href: changed({ with: next }), role: "button", "aria-pressed": String(on) }, plain(one.name, 60));
  });
  return el("div", { class: "chips", role: "group", "aria-label": "Runs to lay over this one" }, el("span", { class: "quiet" }, "Lay over:"), chips);
}

function stepTable(run, rows, query) {
  const latest = [...rows].reverse();
  const shown = query.get("steps") === "all" ? latest : latest.slice(0, STEPS);
  return el(
    "section",
    {},
    el("h2", {}, "Steps"),
    table({
      caption: "Steps, the latest first",
      rows: shown,
      key: (row) => `${row.split}-${row.step}`,
      href: (row) => address.step(run, row.split, row.step),
      mark: (row) => row.split,
      columns: [
        { label: "step", cell: (row) => `${row.split} ${row.step}` },
        { label: "groups", number: true, cell: (row) => count(row.groups || null) },
        { label: "rollouts", number: true, cell: (row) => count(row.rollouts) },
        { label: "reward", number: true, cell: (row) => reward(row.reward) },
        { label: "between groups", number: true, cell: (row) => reward(row.spread_between), help: "standard deviation of the groups' mean rewards" },
        { label: "inside groups", number: true, cell: (row) => reward(row.spread_inside), help: "mean of the groups' standard deviations" },
        { label: "constant", number: true, cell: (row) => percent(row.constant), help: "groups whose rewards are all the same: nothing is learnt from them" },
        { label: "cut", number: true, cell: (row) => percent(row.rollouts ? row.cut / row.rollouts : null) },
        { label: "tool errors", number: true, cell: (row) => number(row.tool_errors, 2), help: "a rollout" },
        { label: "turns", number: true, cell: (row) => number(row.turns, 1) },
        { label: "failed", number: true, cell: (row) => count(row.failed) },
      ],
    }),
    latest.length > shown.length && el("p", {}, el("a", { href: changed({ steps: "all" }) }, `Show all ${count(latest.length)} steps`)),
  );
}

/** What the trainer itself logged, on request: it is read from the log path. */
function trainer({ metrics, curves }, query) {
  const on = query.get("trainer");
  return el(
    "section",
    { class: "trainer" },
    el("h2", {}, "The trainer's own metrics"),
    el("p", {}, el("a", { href: changed({ trainer: on ? "" : "1" }) }, on ? "Hide them" : "Show what stands in metrics.jsonl")),
    metrics && (metrics.length === 0 ? el("p", { class: "quiet" }, "There is no metrics.jsonl at the log path.") : charts({ metrics, names: [""], curves }, pageWidth())),
  );
}
