// One step: its groups as rows, the ones with the highest spread of rewards first.

import { el } from "../dom.js";
import { count, number, reward } from "../format.js";
import { dots, shared } from "../marks.js";
import { badge, empty, facts, heading, link, paging } from "../parts.js";
import { address, changed } from "../router.js";
import { orderOf, table } from "../table.js";
import { plain } from "../text.js";

const FILTERS = [
  ["", "all"],
  ["varied", "varied rewards"],
  ["constant", "constant rewards"],
  ["cut", "with cuts"],
  ["errors", "with errors"],
];

export function load({ run, split, step }, query, ask) {
  const order = orderOf(query, "spread");
  return ask("groups", { run, split, step, sort: order.by, order: order.down ? "down" : "up", only: query.get("only"), ...fieldsOf(query), attempt: query.get("attempt"), after: query.get("after") });
}

const FIELDS = ["task", "tag", "size", "low", "high"];

function fieldsOf(query) {
  return Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
}

export function crumbs(_data, { params }) {
  return [
    [address.run(params.run), plain(params.run)],
    [address.step(params.run, params.split, params.step), `${params.split} step ${params.step}`],
  ];
}

export function keys({ previous_step, next_step }, { params }, go) {
  const to = (step) => () => step !== null && go(address.step(params.run, params.split, step));
  return { ArrowLeft: ["previous step", to(previous_step)], ArrowRight: ["next step", to(next_step)] };
}

export function render(data, { params, query }) {
  const { groups, totals } = data;
  return [
    heading(`${params.split === "eval" ? "Eval before step" : "Step"} ${params.step}`, neighbours(data, params)),
    totals && facts([
      ["groups", count(totals.groups || groups.length)],
      ["rollouts", count(totals.rollouts)],
      ["mean reward", reward(totals.reward)],
      ["cut", count(totals.cut)],
      ["failed", count(totals.failed)],
      ["dropped", count(totals.abandoned)],
      ["attempts", data.attempts.length > 1 && data.attempts.map(attemptLink)],
    ]),
    filters(query),
    groups.length === 0 ? empty("No group is here.", "Take a filter away, or look at another step.") : groupTable(data, query),
    paging(data.next, "More groups", { after: query.get("after") }, "Back to the first groups"),
  ];
}

/** A step that was played by several attempts: the latest stands, the others can be looked at. */
function attemptLink({ number, superseded }) {
  return el("a", { class: "pill plain", href: changed({ attempt: superseded ? number : "", after: "" }) }, `${number}${superseded ? " superseded" : " stands"}`);
}

function neighbours({ previous_step: previous, next_step: next }, { run, split }) {
  return el(
    "nav",
    { class: "neighbours", "aria-label": "Other steps" },
    previous !== null && link(address.step(run, split, previous), `← step ${previous}`),
    next !== null && link(address.step(run, split, next), `step ${next} →`),
  );
}

function filters(query) {
  const only = query.get("only") ?? "";
  const field = (name, label, attrs = {}) => el("label", {}, `${label} `, el("input", { name, value: query.get(name) ?? "", autocomplete: "off", ...attrs }));
  return el(
    "form",
    { class: "filters", role: "search", on: { submit: (event) => submit(event) } },
    FILTERS.map(([name, label]) => el("a", { class: name === only ? "toggle on" : "toggle", href: changed({ only: name, after: "" }), "aria-current": name === only ? "true" : null }, label)),
    el(
      "span",
      { class: "fields" },
      field("task", "task", { type: "search", placeholder: "part of its id", "data-search": true }),
      field("tag", "tag"),
      field("size", "size", { type: "number", min: "1" }),
      field("low", "mean from", { type: "number", step: "any" }),
      field("high", "to", { type: "number", step: "any" }),
      el("button", { type: "submit" }, "Filter"),
    ),
  );
}

function submit(event) {
  event.preventDefault();
  const href = changed({ ...Object.fromEntries(FIELDS.map((name) => [name, event.target.elements[name].value])), after: "" });
  event.target.dispatchEvent(Object.assign(new CustomEvent("open-page", { bubbles: true, detail: href }), { replace: true }));
}

function groupTable({ groups }, query) {
  const range = shared(groups.map((group) => group.rewards));
  return table({
    caption: "Groups of this step",
    rows: groups,
    key: (group) => group.where.group,
    href: (group) => address.group(group.where.group),
    order: orderOf(query, "spread"),
    columns: [
      { label: "task", sort: "task", class: "name", cell: (group) => plain(group.where.task, 80) },
      { label: "rewards", class: "spark", cell: (group) => dots(group.rewards, range), help: `from ${number(range[0])} to ${number(range[1])}` },
      { label: "spread", sort: "spread", number: true, cell: (group) => reward(group.spread), help: "standard deviation of the rewards" },
      { label: "mean", sort: "mean", number: true, cell: (group) => reward(group.mean) },
      { label: "min", sort: "low", number: true, cell: (group) => reward(group.low) },
      { label: "max", sort: "high", number: true, cell: (group) => reward(group.high) },
      { label: "size", sort: "size", number: true, cell: (group) => count(group.size) },
      { label: "cut", sort: "cut", number: true, cell: (group) => count(group.cut) },
      { label: "errors", sort: "errors", number: true, cell: (group) => count(group.tool_errors + group.format_errors), help: "tool and format errors" },
      { label: "constant", sort: "constant", cell: (group) => [group.constant && badge("constant", "plain", "all rewards are the same: nothing is learnt from it"), group.failed > 0 && badge(`${group.failed} failed`, "bad"), group.where.superseded && badge("superseded", "plain", "a later attempt played this step again")] },
      { label: "tags", class: "tags", cell: (group) => plain(group.where.tags.join(", "), 60) },
    ],
  });
}
