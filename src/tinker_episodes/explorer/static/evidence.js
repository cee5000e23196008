// What scores cite: the messages and calls of the transcript that they rest on.

/**
 * Evidence may name entries of the transcript: `messages` by their numbers, `calls` by the number of
 * the call in the episode, counted from 0, or by the call's id. Gives the messages of each score.
 */
export function messagesOf(evidence, entries) {
  const calls = entries.map((entry, at) => ({ entry, at })).filter(({ entry }) => entry.kind === "result");
  const byNumber = list(evidence.messages).filter((at) => Number.isInteger(at) && at >= 0 && at < entries.length);
  const byCall = list(evidence.calls).map((call) => (typeof call === "string" ? calls.find(({ entry }) => entry.call_id === call) : calls[call])?.at);
  return [...new Set([...byNumber, ...byCall.filter((at) => at !== undefined)])].sort((a, b) => a - b);
}

/** Message → the scores that cite it, as `{name, at}`. */
export function citedMessages(scores, entries) {
  const cited = new Map();
  scores.forEach((score, n) => {
    for (const at of messagesOf(score.evidence, entries)) cited.set(at, [...(cited.get(at) ?? []), { name: score.name, at: n }]);
  });
  return cited;
}

function list(value) {
  return Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
}
