// Live updates: server-sent events, read by fetch so that the token can go along as a header.

import { headers } from "./api.js";

const FIRST_WAIT_MS = 1000;
const MOST_WAIT_MS = 15000;

/** Call `onChange` whenever the runs have changed, and `onState` with "live", "lost" or "refused". */
export async function follow(onChange, onState) {
  let wait = FIRST_WAIT_MS;
  for (;;) {
    try {
      const answer = await fetch("/api/live", { headers: headers() });
      if (answer.status === 401) return onState("refused");
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      onState("live");
      wait = FIRST_WAIT_MS;
      await read(answer.body, onChange);
    } catch {
      // The connection is lost: it is tried again below.
    }
    onState("lost");
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, MOST_WAIT_MS);
  }
}

async function read(body, onChange) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    if (events.some((event) => event.startsWith("event: change"))) onChange();
  }
}
