// The explorer's start: opens the page of each address, keeps it up to date, and remembers where the
// reader was.

import { getJson, takeToken } from "./api.js";
import { el, morph, reveal, show } from "./dom.js";
import { setKeys, startKeys } from "./keys.js";
import { follow } from "./live.js";
import { failure, loading } from "./parts.js";
import { holdPlace } from "./place.js";
import { match } from "./router.js";
import * as compare from "./views/compare.js";
import * as group from "./views/group.js";
import * as rollout from "./views/rollout.js";
import * as run from "./views/run.js";
import * as runs from "./views/runs.js";
import * as searching from "./views/search.js";
import * as step from "./views/step.js";
import * as task from "./views/task.js";

// A view is `load(params, query, api)`, `render(data, page)`, and optionally `crumbs`, `keys`, and
// `reload(data, api)`, where an update needs less than all of the data.
const VIEWS = { runs, run, step, group, rollout, compare, task, search: searching };
const SLOW_MS = 150;
const REFRESH_MS = 1000;
const SHARE = 10; // an update is asked for after ten times as long as the last one took

const main = document.getElementById("main");
let page = null; // what is open: {view, params, query, data}
let opened = null; // its address, without the fragment
let opening = new AbortController();

/** Open an address of the explorer. */
export function go(href, { replace = false } = {}) {
  remember();
  history[replace ? "replaceState" : "pushState"]({}, "", href);
  return open({ quiet: replace });
}

async function open({ quiet = false, scroll = 0 } = {}) {
  opening.abort();
  const mine = (opening = new AbortController());
  opened = location.pathname + location.search;
  const found = match(new URL(location.href));
  if (!found) return fail({ status: 404, message: `The explorer has no page ${location.pathname}.` });
  const next = { view: VIEWS[found.name], ...found };
  const same = quiet && isOf(page, next);
  if (same) {
    page.query = next.query; // what needs no new data, such as a pick, is seen at once
    paint({ fresh: false });
  }
  const slow = setTimeout(() => quiet || show(main, loading()), SLOW_MS);
  try {
    next.data = await next.view.load(next.params, next.query, ask(mine.signal));
  } catch (error) {
    if (!mine.signal.aborted) fail(error);
    return;
  } finally {
    clearTimeout(slow);
  }
  if (mine.signal.aborted) return;
  const read = same ? firstRead() : null;
  page = next;
  paint({ fresh: !same || page.view.whole });
  if (!same) await settle(scroll);
  else if (read) await keepRead(read);
}

function isOf(open, next) {
  return open !== null && open.name === next.name && JSON.stringify(open.params) === JSON.stringify(next.params);
}

/** The message that the reader has at the top, of a view that is drawn anew as a whole. */
function firstRead() {
  if (!page.view.whole || scrollY < 40) return null;
  return [...document.querySelectorAll("main [data-stop]")].find((stop) => stop.getBoundingClientRect().bottom > 100)?.id;
}

async function keepRead(id) {
  await page.view.settle?.(page.data, page);
  document.getElementById(id)?.scrollIntoView({ block: "start" });
}

function ask(signal) {
  return (path, query) => getJson(path, query, signal);
}

function paint({ fresh }) {
  const updating = !fresh && main.firstElementChild?.classList.contains(`page-${page.name}`);
  const drawn = el("div", { class: `page page-${page.name}` }, page.view.render(page.data, { ...page, updating }));
  const crumbs = page.view.crumbs?.(page.data, page) ?? [];
  showCrumbs([["/", "Runs"], ...crumbs]);
  if (updating) holdPlace(main, () => morph(main.firstElementChild, drawn));
  else show(main, drawn);
  document.title = [...crumbs.map(([, label]) => label).reverse(), "tinker-episodes"].join(" · ");
  setKeys(page.view.keys?.(page.data, page, go) ?? {});
}

function showCrumbs(crumbs) {
  const nav = document.getElementById("crumbs");
  const list = el("ol", {}, crumbs.map(crumb));
  if (nav.firstElementChild) morph(nav.firstElementChild, list);
  else show(nav, list);
}

function crumb([href, label], at, all) {
  const last = page !== null && at === all.length - 1;
  return el("li", {}, last || !href ? el("span", { "aria-current": last ? "page" : null }, label) : el("a", { href }, label));
}

/** Go to where the reader was, or to the message that the address names. */
async function settle(scroll) {
  await page.view.settle?.(page.data, page);
  const target = named();
  if (target) return reveal(target);
  const chosen = document.activeElement;
  if (chosen !== main && main.contains(chosen)) return; // the view's own choice
  scrollTo(0, scroll);
  main.focus({ preventScroll: true });
}

/** What the fragment of the address names. */
function named() {
  return location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
}

function fail(error) {
  page = null;
  document.title = "tinker-episodes";
  showCrumbs([["/", "Runs"]]);
  setKeys({});
  show(main, failure(error));
}

function remember() {
  history.replaceState({ ...history.state, scroll: scrollY }, "");
}

// ---------------------------------------------------------------- live

let stale = false;
let refreshing = false;
let pauseMs = REFRESH_MS;

/** Read the open page's data anew and update it in place, at most once a second. */
async function refresh() {
  stale = true;
  if (refreshing) return;
  refreshing = true;
  try {
    while (stale) {
      await new Promise((done) => setTimeout(done, pauseMs));
      stale = false;
      if (page === null && main.querySelector(".failure")) await open({ quiet: true });
      else if (page !== null && !document.hidden) await update(page);
    }
  } finally {
    refreshing = false;
  }
}

async function update(mine) {
  const { view, data, params, query } = mine;
  const api = ask(opening.signal);
  const began = performance.now();
  let found;
  try {
    found = await (view.reload ? view.reload(data, api) : view.load(params, query, api));
  } catch {
    return; // the page stays as it is; the live mark says if the connection is lost
  } finally {
    pauseMs = Math.max(REFRESH_MS, SHARE * (performance.now() - began));
  }
  if (page !== mine) return;
  page.data = found;
  paint({ fresh: false });
}

function changedState(state) {
  const mark = document.getElementById("live");
  mark.className = `live ${state}`;
  mark.textContent = { live: "live", lost: "connection lost", refused: "refused: it wants a token" }[state];
  if (state === "live") refresh();
}

// ---------------------------------------------------------------- start

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  const plainClick = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!anchor || !plainClick || anchor.target || event.defaultPrevented) return;
  const href = anchor.getAttribute("href");
  if (href.startsWith("#")) return;
  event.preventDefault();
  go(href, { replace: !anchor.rel && anchor.pathname === location.pathname && anchor.search !== location.search });
});
document.addEventListener("open-page", (event) => go(event.detail, { replace: event.replace }));
document.addEventListener("visibilitychange", () => document.hidden || refresh());
addEventListener("popstate", (event) => {
  // A link to a message of the open page changes the fragment alone: the browser scrolls there.
  if (opened !== location.pathname + location.search) open({ scroll: event.state?.scroll ?? 0 });
});
addEventListener("hashchange", () => (takeToken() ? location.reload() : named() && reveal(named())));
addEventListener("resize", () => page && page.view.resizes && paint({ fresh: false }));

history.scrollRestoration = "manual";
takeToken();
startKeys(go);
open();
follow(refresh, changedState);
