// Tables whose order stands in the address: a click on a heading sorts, again turns it round.

import { el } from "./dom.js";
import { changed } from "./router.js";

/**
 * A table. A column is `{name, label, cell(row), number?, sort?, help?}`; the first one holds the link
 * that opens the row. `order` is `{by, down}` as the address has it.
 */
export function table({ caption, columns, rows, href, key, order = null, mark = null }) {
  return el(
    "table",
    {},
    el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", {}, columns.map((column) => head(column, order)))),
    el(
      "tbody",
      {},
      rows.map((row) =>
        el("tr", { "data-key": key(row), class: mark?.(row) }, columns.map((column, at) => cell(column, row, at === 0 && href ? href(row) : null))),
      ),
    ),
  );
}

function head(column, order) {
  const attrs = { scope: "col", class: column.number ? "num" : column.class, title: column.help };
  if (!column.sort) return el("th", attrs, column.label);
  const current = order?.by === column.sort;
  // Numbers start with the highest, names with the first.
  const down = current ? !order.down : Boolean(column.number);
  return el(
    "th",
    { ...attrs, "aria-sort": current ? (order.down ? "descending" : "ascending") : "none" },
    el("a", { href: changed({ sort: column.sort, order: down ? "down" : "up" }), class: "sort" }, column.label, current && el("span", { "aria-hidden": "true" }, order.down ? " ↓" : " ↑")),
  );
}

function cell(column, row, href) {
  const content = column.cell(row);
  return el("td", { class: column.number ? "num" : column.class }, href ? el("a", { href, "data-row": true }, content) : content);
}

/** The order that the address asks for. */
export function orderOf(query, by, down = true) {
  return query.has("sort") ? { by: query.get("sort"), down: query.get("order") !== "up" } : { by, down };
}
