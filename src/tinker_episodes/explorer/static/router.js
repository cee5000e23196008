// Addresses and the pages that they open. A page's whole state stands in its address.

const enc = encodeURIComponent;

/** The address of each page. */
export const address = {
  runs: () => "/",
  run: (run, query = {}) => `/runs/${enc(run)}${search(query)}`,
  step: (run, split, step, query = {}) => `/runs/${enc(run)}/${enc(split)}/${step}${search(query)}`,
  task: (where, query = {}) => `/task${search({ bundle: where.bundle, task: where.task, run: where.run, ...query })}`,
  group: (key, query = {}) => `/groups/${enc(key)}${search(query)}`,
  rollout: (key, query = {}, message = null) =>
    `/rollouts/${enc(key)}${search(query)}${message === null ? "" : `#m${message}`}`,
  compare: (a, b) => `/compare${search({ a, b })}`,
  search: (query = {}) => `/search${search(query)}`,
};

/** `?a=1&b=2` of what is set; a list gives its key once an item. */
export function search(query) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "" && one !== false) params.append(name, one);
    }
  }
  const text = params.toString();
  return text ? `?${text}` : "";
}

/** The address of the open page with some of its query changed. */
export function changed(change) {
  const query = {};
  const now = new URLSearchParams(location.search);
  for (const name of now.keys()) query[name] = now.getAll(name);
  return location.pathname + search({ ...query, ...change });
}

const ROUTES = [
  [/^\/$/, "runs", []],
  [/^\/runs\/([^/]+)$/, "run", ["run"]],
  [/^\/runs\/([^/]+)\/([^/]+)\/(\d+)$/, "step", ["run", "split", "step"]],
  [/^\/groups\/([^/]+)$/, "group", ["key"]],
  [/^\/rollouts\/([^/]+)$/, "rollout", ["key"]],
  [/^\/task$/, "task", []],
  [/^\/compare$/, "compare", []],
  [/^\/search$/, "search", []],
];

/** The page that an address opens: `{name, params, query}`, or null. */
export function match(url) {
  for (const [pattern, name, keys] of ROUTES) {
    const found = pattern.exec(url.pathname);
    if (!found) continue;
    try {
      const params = Object.fromEntries(keys.map((key, at) => [key, decodeURIComponent(found[at + 1])]));
      return { name, params, query: url.searchParams };
    } catch {
      return null;
    }
  }
  return null;
}
