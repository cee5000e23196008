// Asking the server. Where it needs a token, the token comes in the address's fragment, is kept for this
// origin, and goes along as a header.

const KEPT = "tinker-episodes-token";

/** Take the token out of the address, so that it is not copied with it; whether there was one. */
export function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (!given) return false;
  localStorage.setItem(KEPT, given[1]);
  history.replaceState(history.state, "", location.pathname + location.search);
  return true;
}

/** The headers of every request. */
export function headers() {
  const token = localStorage.getItem(KEPT);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** What went wrong with a request, and what can be done. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, query, signal) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") params.append(name, one);
    }
  }
  let answer;
  try {
    answer = await fetch(`/api/${path}?${params}`, { signal, headers: headers() });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The explorer does not answer: it was stopped, or the connection to it is lost.");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new ApiError(answer.status, said.detail ?? `The explorer answered with status ${answer.status}.`);
}

/** A JSON answer. */
export async function getJson(path, query = {}, signal = undefined) {
  return (await ask(path, query, signal)).json();
}

/** A picture by its content hash, as an address that only this page can read. */
export async function getPicture(hash) {
  return URL.createObjectURL(await (await ask("image", { hash })).blob());
}
