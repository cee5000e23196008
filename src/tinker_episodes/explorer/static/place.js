// The reader's place on a page that changes: what they look at stays where it is on the screen.

const BAR = 48; // the bar at the top hides what is under it

/** Change what `main` shows, and keep the focus, and what is read, in their place. */
export function holdPlace(main, change) {
  const focused = main.contains(document.activeElement) && document.activeElement !== main ? document.activeElement : null;
  const read = onScreen(focused) ? focused : firstRead(main);
  const top = read?.getBoundingClientRect().top;
  change();
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  if (read?.isConnected) scrollBy(0, read.getBoundingClientRect().top - top);
}

/** The first row or message that can be seen; none for a reader who is at the top, and gets what is new. */
function firstRead(main) {
  if (scrollY === 0) return null;
  return [...main.querySelectorAll("[data-row], [data-stop], h2, figure")].find(onScreen);
}

function onScreen(node) {
  if (!node) return false;
  const { top, bottom } = node.getBoundingClientRect();
  return bottom > BAR && top < innerHeight;
}
