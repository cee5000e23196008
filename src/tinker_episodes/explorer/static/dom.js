// Making and updating elements. Text goes in as text nodes: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `attrs.on` holds listeners by event; falsy children are left out. */
export function el(tag, attrs = {}, ...children) {
  return fill(document.createElement(tag), attrs, children);
}

/** An SVG element. */
export function svg(tag, attrs = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attrs, children);
}

function fill(node, attrs, children) {
  for (const name in attrs) {
    const value = attrs[name];
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") listen(node, value);
    else if (name === "href") node.setAttribute("href", ownAddress(value));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false || child === "") continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

/** Links lead to this explorer's own pages: an address that came from data could be a script. */
function ownAddress(address) {
  if (/^(\/(?![/\\])|#|\?)/.test(address)) return address;
  throw new Error(`${address} is no address of the explorer`);
}

// Listeners live in a table on the node, so that an updated element takes the new ones over.
function listen(node, handlers) {
  node.handlers = handlers;
  for (const type of Object.keys(handlers)) {
    node.addEventListener(type, (event) => node.handlers[type]?.(event));
  }
}

/** Replace the children of a node. */
export function show(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child instanceof Node));
}

/**
 * Make `old` look like `fresh` in place: what did not change stays the same element, so that focus,
 * scroll and open folds stay. Elements with a `data-key` are matched by it, others by position. One
 * that is `kept` stays whole while what it shows is the same thing.
 */
export function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (fresh.keep !== undefined) return;
  morphAttributes(old, fresh);
  if (fresh.handlers) old.handlers = fresh.handlers;
  morphChildren(old, fresh);
  fresh.updated?.(old);
}

/** Mark a node that updates leave as it is, with all that the reader did in it, while it shows `what`. */
export function kept(node, what) {
  node.keep = what;
  return node;
}

// What the reader has set, not the data.
const READERS = new Set(["open", "value", "checked"]);

function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !READERS.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !READERS.has(name)) old.setAttribute(name, value);
  }
}

function morphChildren(old, fresh) {
  const wanted = new Set([...fresh.children].map((child) => child.dataset.key));
  const keyed = new Map();
  for (const child of [...old.children]) {
    if (!wanted.has(child.dataset.key)) child.remove();
    else if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
  }
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = next.dataset?.key;
    const match = key === undefined ? at : keyed.get(key);
    if (match && alike(match, next)) {
      if (match !== at) old.insertBefore(match, at);
      else at = at.nextSibling;
      morph(match, next);
    } else {
      old.insertBefore(next, at);
      if (key === undefined && at?.keep !== undefined && next.keep !== undefined) {
        at.remove();
        at = next.nextSibling;
      }
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.dataset?.key === b.dataset?.key && a.keep === b.keep;
}

const TRIES = 12;

/**
 * Scroll to a node and focus it. What lies between gets its size only when it is drawn, so the place
 * is looked at again until it holds.
 */
export async function reveal(node, block = "start") {
  node.focus({ preventScroll: true });
  let before = null;
  for (let at = 0; at < TRIES; at++) {
    node.scrollIntoView({ block });
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    const { top } = node.getBoundingClientRect();
    if (before !== null && Math.abs(top - before) < 2) return;
    before = top;
  }
}
