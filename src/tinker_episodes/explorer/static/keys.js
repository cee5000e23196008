// The keyboard: moving through rows and messages, and a page's own keys.

import { el, show } from "./dom.js";

const COMMON = [
  ["j  ↓", "next row or message"],
  ["k  ↑", "previous row or message"],
  ["Enter", "open"],
  ["u", "up: to the page above"],
  ["/", "search"],
  ["?", "this list"],
];

let own = {};

/** The keys of the open page: `{key: [what it does, action]}`. */
export function setKeys(keys) {
  own = keys;
}

/** Listen. `go` opens an address. */
export function startKeys(go) {
  document.getElementById("help-button").addEventListener("click", showHelp);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
    if (document.getElementById("help").open) return;
    const action = actionOf(event.key, go);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function typing(event) {
  return event.key !== "Escape" && event.target.closest?.("input, select, textarea") !== null;
}

function actionOf(key, go) {
  if (own[key]) return own[key][1];
  if (key === "j" || key === "ArrowDown") return stepper(1, key);
  if (key === "k" || key === "ArrowUp") return stepper(-1, key);
  if (key === "/") return () => (document.querySelector("[data-search]") ? document.querySelector("[data-search]").focus() : go("/search"));
  if (key === "?") return showHelp;
  if (key === "u") return upward(go);
  if (key === "Escape") return () => document.activeElement?.blur();
  return null;
}

function upward(go) {
  const above = [...document.querySelectorAll("#crumbs a")].at(-1);
  return above && (() => go(above.getAttribute("href")));
}

/** The move to the next or previous stop, where the page has stops. */
function stepper(by) {
  const stops = [...document.querySelectorAll("main [data-row], main [data-stop]")];
  if (stops.length === 0) return null;
  return () => {
    const at = current(stops);
    const next = stops[at < 0 ? (by > 0 ? 0 : stops.length - 1) : Math.max(0, Math.min(stops.length - 1, at + by))];
    next.focus({ preventScroll: true });
    const tall = next.getBoundingClientRect().height > innerHeight * 0.6;
    next.scrollIntoView({ block: tall || next.matches("[data-stop]") ? "start" : "nearest" });
  };
}

function current(stops) {
  const focused = document.activeElement?.closest("[data-row], [data-stop]");
  const at = stops.indexOf(focused);
  if (at >= 0) return at;
  // Nothing is chosen: go on from what is read, which is what stands first on the screen.
  const first = stops.findIndex((stop) => stop.getBoundingClientRect().bottom > 120);
  return scrollY < 40 || !stops[0].matches("[data-stop]") ? -1 : first - 1;
}

function showHelp() {
  const dialog = document.getElementById("help");
  const rows = [...COMMON, ...Object.entries(own).map(([key, [what]]) => [KEY_NAMES[key] ?? key, what])];
  show(
    dialog,
    el("h2", { id: "help-title" }, "Keys"),
    el("dl", { class: "keys" }, rows.map(([keys, what]) => el("div", {}, el("dt", {}, keys.split("  ").map((key) => el("kbd", {}, key))), el("dd", {}, what)))),
    el("button", { type: "button", on: { click: () => dialog.close() } }, "Close"),
  );
  dialog.showModal();
}

const KEY_NAMES = { ArrowLeft: "←", ArrowRight: "→" };
