// All runs: what they play, how far they are, and how their reward went.

import { el } from "../dom.js";
import { ago, count, number, reward } from "../format.js";
import { sparkline } from "../marks.js";
import { badge, empty, heading } from "../parts.js";
import { address, changed } from "../router.js";
import { table } from "../table.js";
import { plain } from "../text.js";

export function load(_params, _query, ask) {
  return ask("runs");
}

export function render({ runs, place }, { query }) {
  if (runs.length === 0) {
    return [
      heading("Runs"),
      empty(
        "There is no run yet.",
        `The explorer reads ${plain(place, 300)}.`,
        "Start a training run that logs there: it appears here with its first rollouts.",
      ),
    ];
  }
  const chosen = query.getAll("with");
  return [
    heading("Runs", el("p", { class: "quiet" }, plain(place, 300))),
    table({
      caption: "Runs",
      rows: runs,
      key: (run) => run.name,
      href: (run) => address.run(run.name),
      columns: [
        { label: "run", class: "name", cell: (run) => plain(run.name) },
        { label: "", cell: (run) => run.live && badge("live", "live") },
        { label: "plays", class: "gist", cell: bundles },
        { label: "reward by step", class: "spark", cell: (run) => sparkline(run.points.map((point) => point.reward), { label: "reward" }) },
        { label: "latest reward", number: true, cell: (run) => reward(run.reward) },
        { label: "last step", number: true, cell: (run) => number(run.last_step) },
        { label: "rollouts", number: true, cell: (run) => count(run.rollouts) },
        { label: "attempts", number: true, cell: (run) => count(run.attempts), help: "starts of the run: one more after each resume" },
        { label: "last filed", number: true, cell: (run) => ago(run.active_at) },
        { label: "overlay", cell: (run) => choice(run, chosen) },
      ],
    }),
    overlay(chosen),
  ];
}

function bundles(run) {
  if (run.kind === "log") return el("span", { class: "quiet" }, "a cookbook run without a bundle");
  return plain(run.bundles.join(", "));
}

function choice(run, chosen) {
  const on = chosen.includes(run.name);
  const next = on ? chosen.filter((name) => name !== run.name) : [...chosen, run.name];
  return el("a", { class: on ? "toggle on" : "toggle", href: changed({ with: next }), "aria-label": `lay ${plain(run.name)} over others`, "aria-pressed": String(on), role: "button" }, on ? "✓" : "+");
}

function overlay(chosen) {
  if (chosen.length < 2) return null;
  const [first, ...others] = chosen;
  return el("p", { class: "bar-below" }, el("a", { class: "primary", href: address.run(first, { with: others }) }, `Lay ${chosen.length} runs over each other`));
}
