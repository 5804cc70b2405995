// The streams of running answers: connect again when a first connection fails, and remember what was seen.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const waits = new WeakMap();

// htmx tries the first connection once only. After that the extension reconnects by itself.
function reconnect(event) {
  const bubble = event.target;
  if (!(bubble instanceof Element) || !bubble.hasAttribute("hx-sse:connect")) return;
  const wait = waits.get(bubble) ?? FIRST_WAIT_MS;
  waits.set(bubble, Math.min(wait * 2, LONGEST_WAIT_MS));
  setTimeout(() => bubble.isConnected && htmx.trigger(bubble, "rheo:reconnect"), wait * (0.75 + Math.random() / 2));
}

document.addEventListener("htmx:error", reconnect);
document.addEventListener("htmx:response:error", reconnect);

document.addEventListener("htmx:sse:after:message", (event) => {
  const bubble = event.target;
  // After the last frame the bubble is another one, and the event comes to the document.
  if (!(bubble instanceof HTMLElement)) return;
  const { id } = event.detail.message;
  if (id) bubble.dataset.seen = id;
  // A notice of how many come before it has no number: then the answer still waits.
  const reads = bubble.querySelector('.waiting [data-kind="reading"]') !== null;
  if (bubble.dataset.state === "queued" && (id || reads)) bubble.dataset.state = "running";
});

// The quiet end: the bubble stays as it is, with all that is selected, open or scrolled in it, and takes over
// what its new foot says. Only now: until its stream is closed it may be cut and has to connect again.
document.addEventListener("htmx:sse:close", ({ target: bubble, detail: { reason } }) => {
  const foot = bubble.querySelector?.(":scope > .message-foot");
  if (reason !== "message" || !foot) return;
  for (const name of ["aria-busy", "hx-sse:connect", "hx-sse:close", "hx-trigger", "hx-swap", "data-seen", "data-htmx-powered"]) bubble.removeAttribute(name);
  Object.assign(bubble.dataset, foot.dataset);
  bubble.dispatchEvent(new CustomEvent("rheo:ended", { bubbles: true }));
});

// Stop cuts the answer where the reader saw it end.
document.addEventListener("htmx:config:request", (event) => {
  const form = event.target;
  if (form.id !== "stop-form") return;
  const seen = document.getElementById(form.dataset.message)?.dataset.seen;
  if (seen) event.detail.ctx.request.body.set("seen", seen);
});
