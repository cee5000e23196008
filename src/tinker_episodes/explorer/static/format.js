// Numbers, times and names as people read them.

const NONE = "–";

/** A number: three decimals at most, none where it is whole. */
export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  if (value !== 0 && Math.abs(value) < 0.001) return exponential(value);
  if (Math.abs(value) >= 10000) return compact(value);
  return Number.isInteger(value) ? String(value) : value.toFixed(digits).replace(/0+$/, "").replace(/\.$/, "");
}

/** A reward in a column: the same number of decimals, where that tells it and is no wider than others. */
export function reward(value) {
  if (value === null || value === undefined) return NONE;
  const size = Math.abs(value);
  return value === 0 || (size >= 0.0005 && size < 10000) ? value.toFixed(3) : number(value);
}

export function percent(share) {
  if (share === null || share === undefined) return NONE;
  const value = share * 100;
  if (value > 0 && value < 0.05) return "< 0.1 %";
  return `${value < 10 ? trim(value) : value.toFixed(0)} %`;
}

/** A count: 1,234. */
export function count(value) {
  return value === null || value === undefined ? NONE : value.toLocaleString("en-US");
}

/** A large number in short: 12.3k. */
export function compact(value) {
  if (value === null || value === undefined) return NONE;
  const size = Math.abs(value);
  if (size < 1000) return Number.isInteger(value) ? String(value) : value.toFixed(1);
  if (size < 1e6) return `${trim(value / 1e3)}k`;
  if (size < 1e9) return `${trim(value / 1e6)}M`;
  return exponential(value);
}

function exponential(value) {
  return value.toExponential(1).replace("e+", "e").replace(".0e", "e");
}

function trim(value) {
  return value.toFixed(Math.abs(value) < 100 ? 1 : 0).replace(/\.0$/, "");
}

export function seconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 100) return `${value.toFixed(1)} s`;
  if (value < 6000) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

/** How long ago, in words; `at` is seconds since the epoch. */
export function ago(at) {
  if (!at) return NONE;
  const past = Math.max(0, Date.now() / 1000 - at);
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.round(past / 60)} min ago`;
  if (past < 86400) return `${Math.round(past / 3600)} h ago`;
  return `${Math.round(past / 86400)} d ago`;
}

export function plural(amount, one, many = `${one}s`) {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}

/** How a cut reason is said. */
export function cutName(reason) {
  return reason.replaceAll("_", " ");
}

/** The name of a run group: step-0007. */
export function stepName(step) {
  return `step ${step}`;
}

/** The short form of a key. */
export function shortKey(key) {
  const last = key.split("/").at(-1);
  return last.length > 10 ? last.slice(0, 8) : last;
}
