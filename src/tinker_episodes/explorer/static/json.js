// JSON values as readable text, and two of them beside each other.

import { el } from "./dom.js";
import { textBlock } from "./text.js";

/** A value in short: strings as they are, all else as JSON. */
export function written(value) {
  if (typeof value === "string") return value;
  const compact = JSON.stringify(value) ?? "undefined";
  return compact.length > 80 ? JSON.stringify(value, null, 2) : compact;
}

/** The type of a JSON value, as a reader names it. */
export function typeName(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return { string: "text", boolean: "boolean", object: "object" }[typeof value] ?? typeof value;
}

/** A value as a block, with its type where the text alone does not tell it. */
export function valueBlock(value, { first = 1500 } = {}) {
  return el("div", { class: `value ${typeName(value)}` }, textBlock(written(value), { mono: true, first }));
}

/** The differences of two values, path by path: `[path, before, after]`; undefined where absent. */
export function differences(before, after, path = "") {
  if (Object.is(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => differences(before[key], after[key], path ? `${path}.${key}` : key));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const length = Math.max(before.length, after.length);
    return Array.from({ length }, (_, at) => differences(before[at], after[at], `${path}[${at}]`)).flat();
  }
  return [[path, before, after]];
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
