// The view follows the end of the transcript while the reader is there; any move upwards lets go.

const NEAR = 64;
// The browser smooths a move over as much as this; the end goes on meanwhile.
const MOVE_MS = 1000;
const page = document.scrollingElement;
const messages = document.getElementById("messages");
const button = document.getElementById("to-latest");
const place = () => `rheo-place:${location.pathname}`;
let following = true;
// Where the view was when last looked at, and the end when the reader last set out downwards.
let known = 0;
let end = 0;
let setOutAt = -Infinity;

// A view that stands higher than we left it was moved by the reader, unless it was only pressed against the
// end. Whoever moves down to about where the end was follows again; it may have gone on since.
function look() {
  const top = page.scrollTop;
  const bottom = page.scrollHeight - page.clientHeight;
  if (top < known - 1 && top < bottom - 1) following = false;
  else if (top > known && top >= Math.min(end, bottom) - NEAR) following = true;
  known = top;
  if (performance.now() - setOutAt > MOVE_MS) end = bottom;
  hide(following || bottom - top <= NEAR);
}

function toEnd() {
  following = true;
  if (messages.style.minHeight) messages.style.minHeight = "";
  page.scrollTop = page.scrollHeight;
  known = page.scrollTop;
  hide(true);
}

// Setting what is set already would have the browser look at its styles anew.
function hide(hidden) {
  if (button.hidden !== hidden) button.hidden = hidden;
}

function settle() {
  look();
  if (following) toEnd();
}

addEventListener("scroll", look, { passive: true });

// The intent comes before the movement: the next word must not pull the view back.
const letGo = () => page.scrollTop > 0 && (following = false);
const setOut = () => {
  end = page.scrollHeight - page.clientHeight;
  setOutAt = performance.now();
};
const scrollsItself = (target) => target.closest?.("textarea, dialog, .sidebar");
let touched = 0;
addEventListener("wheel", (event) => scrollsItself(event.target) || (event.deltaY < 0 ? letGo() : setOut()), { passive: true });
addEventListener("touchstart", (event) => (touched = event.touches[0].clientY), { passive: true });
addEventListener("touchmove", (event) => scrollsItself(event.target) || (event.touches[0].clientY > touched + 2 ? letGo() : setOut()), { passive: true });
addEventListener("keydown", (event) => {
  if (event.target.closest?.("textarea, input")) return;
  if (["PageUp", "Home", "ArrowUp"].includes(event.key)) letGo();
  if (["PageDown", "End", "ArrowDown", " "].includes(event.key)) setOut();
});

button.addEventListener("click", () => {
  toEnd();
  document.getElementById("composer-input").focus({ preventScroll: true });
});

document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  // The reader looks at a fork, and not at the end of what is below it.
  if (ctx.sourceElement.closest?.(".variants")) following = false;
  // Where the last form of an answer is shorter than the streamed one, the view must not be pressed upwards.
  else if (!following) messages.style.minHeight = `${messages.offsetHeight}px`;
  if (ctx.sourceElement?.id === "earlier") keepPlace();
  // What the reader sends or asks again is at the end.
  if (ctx.request.method === "POST" && ctx.response.status < 300 && ctx.target?.closest("#messages")) {
    following = true;
    known = 0;
    requestAnimationFrame(toEnd);
  }
});

// What comes in above must not move what is read: at the very top the browser would not hold it.
function keepPlace() {
  const first = messages.querySelector(".message");
  const top = first.getBoundingClientRect().top;
  document.addEventListener(
    "htmx:after:swap",
    () => {
      page.scrollTop += first.getBoundingClientRect().top - top;
      known = page.scrollTop;
    },
    { once: true },
  );
}

// A word that came: the view moves with it before the next picture. Moved only in that picture's layout, as below,
// the browser would have to draw one more for it: twice the work of a stream.
let moved = false;
document.addEventListener("htmx:sse:after:message", () => {
  if (moved) return;
  moved = true;
  requestAnimationFrame(() => (moved = false));
  settle();
});

// After layout and before paint, once a frame whatever else has grown: the composer, the window, a picture.
new ResizeObserver(settle).observe(document.body);
addEventListener("resize", settle);

// A reload comes back to where it was, or to the end that has moved on meanwhile.
history.scrollRestoration = "manual";
addEventListener("pagehide", () => {
  try {
    sessionStorage.setItem(place(), following ? "end" : page.scrollTop);
  } catch {
    // No store: the page opens at its end.
  }
});

// A link to a message that is not on the page: it is earlier, and the server knows where.
function reachesOut() {
  const message = location.hash.match(/^#message-(\w+)$/)?.[1];
  const asked = new URLSearchParams(location.search).has("message");
  if (!message || asked || document.querySelector(":target") || !messages.querySelector(".message")) return false;
  location.replace(`?message=${message}${location.hash}`);
  return true;
}
addEventListener("hashchange", reachesOut);

function start() {
  if (reachesOut()) return;
  end = page.scrollHeight - page.clientHeight;
  let left = null;
  try {
    left = sessionStorage.getItem(place());
  } catch {
    // As above.
  }
  const opened = performance.getEntriesByType("navigation")[0]?.type === "navigate";
  if (!opened && left !== null && left !== "end") {
    following = false;
    page.scrollTop = known = Number(left);
  } else if (location.hash && document.querySelector(":target")) {
    following = false;
    known = page.scrollTop;
  } else {
    toEnd();
  }
}

start();
