// Aligning two rollouts by their calls: which steps are the same, which differ, which one alone has.

const MOST_CELLS = 1_000_000;

/**
 * The steps of a transcript: a prompt, a call with its result, or a reply without a call. Text that a
 * reply says before its calls goes with its first call.
 */
export function stepsOf(entries, results) {
  const steps = [];
  entries.forEach((entry, at) => {
    if (entry.kind === "prompt" || entry.kind === "note") steps.push({ kind: entry.kind, at, entry, name: entry.kind, match: `${entry.kind}:${entry.text}` });
    if (entry.kind !== "reply") return;
    if (entry.calls.length === 0) steps.push({ kind: "reply", at, entry, name: "reply", match: `reply:${JSON.stringify(entry.content)}:${JSON.stringify(entry.malformed)}` });
    entry.calls.forEach((call, n) => {
      const result = entries[results.get(`${at}:${n}`)];
      const got = result?.arguments ?? call.written;
      steps.push({ kind: "call", at, entry, call, first: n === 0, result, name: `call ${call.name}`, match: `${call.name}:${canonical(got)}` });
    });
  });
  return steps;
}

/** JSON with sorted keys: the order in which a model writes arguments does not matter. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "undefined";
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join()}}`;
}

/** Pairs `{a, b, same}` in order; a side that has nothing there is null. */
export function align(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start].match === b[start].match) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end).match === b.at(-1 - end).match) end++;
  const middle = pairMiddle(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const pairs = [
    ...a.slice(0, start).map((step, at) => [step, b[at]]),
    ...middle,
    ...a.slice(a.length - end).map((step, at) => [step, b[b.length - end + at]]),
  ];
  return pairs.map(([left, right]) => ({ a: left, b: right, same: isSame(left, right) }));
}

function isSame(a, b) {
  if (a === null || b === null || a.match !== b.match) return false;
  return JSON.stringify(a.result?.content) === JSON.stringify(b.result?.content) && Boolean(a.result?.error) === Boolean(b.result?.error);
}

// The same step counts 4, another call of the same tool 1: a classical alignment by dynamic programming.
function pairMiddle(a, b) {
  if (a.length * b.length > MOST_CELLS) return pairInOrder(a, b);
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const paired = worth(a[i], b[j]);
      const both = paired > 0 ? paired + best[(i + 1) * width + j + 1] : 0;
      best[i * width + j] = Math.max(both, best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const pairs = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const paired = worth(a[i], b[j]);
    const here = best[i * width + j];
    if (paired > 0 && here === paired + best[(i + 1) * width + j + 1]) pairs.push([a[i++], b[j++]]);
    else if (here === best[(i + 1) * width + j]) pairs.push([a[i++], null]);
    else pairs.push([null, b[j++]]);
  }
  return [...pairs, ...a.slice(i).map((step) => [step, null]), ...b.slice(j).map((step) => [null, step])];
}

function worth(a, b) {
  if (a.match === b.match) return 4;
  return a.name === b.name ? 1 : 0;
}

/** Very long ones are paired step by step: an alignment of all would take too long. */
function pairInOrder(a, b) {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => [a[at] ?? null, b[at] ?? null]);
}
