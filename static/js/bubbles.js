// What is done within the transcript: a question is changed, variants are looked at, a link leads to a message.

// A question is changed within its bubble; left, the bubble is as it was.
document.addEventListener("click", (event) => {
  const cancel = event.target.closest("[data-cancel]");
  if (!cancel?.closest(".message")) return;
  event.preventDefault();
  leave(cancel.closest(".revision"));
});
document.addEventListener("keydown", (event) => {
  const form = event.target.closest?.(".message > .revision");
  if (form && event.key === "Escape" && !event.isComposing) leave(form);
});

// The form stands where the pencil was: the second half of a double click must not send it.
const DOUBLE_CLICK_MS = 500;
let opened = -DOUBLE_CLICK_MS;
document.addEventListener("htmx:after:swap", ({ detail: { ctx }, timeStamp }) => {
  if (!ctx?.sourceElement?.matches?.('[data-testid="edit"]')) return;
  const box = ctx.sourceElement.closest(".message").querySelector(".revision textarea");
  if (!box) return;
  opened = timeStamp;
  box.setSelectionRange(box.value.length, box.value.length);
  box.scrollTop = box.scrollHeight;
});
document.addEventListener("click", (event) => {
  if (event.timeStamp - opened < DOUBLE_CLICK_MS && event.target.closest(".revision button")) event.preventDefault();
}, true);

function leave(form) {
  const bubble = form.parentElement;
  form.remove();
  bubble.querySelector('[data-testid="edit"]').focus();
  document.dispatchEvent(new Event("rheo:cancel"));
}

// At a fork the ways to other variants stay under the pointer and keep the focus, whatever comes above and
// below; after a deletion the keyboard goes on at its undoing.
document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  const source = ctx.sourceElement;
  const fork = source.closest?.(".variants");
  if (!fork && !source.matches?.(".deletion")) return;
  const place = fork?.getBoundingClientRect().top;
  document.addEventListener("htmx:after:swap", () => {
    const next = document.getElementById(fork?.id ?? "undo");
    if (fork && next) scrollBy({ top: next.getBoundingClientRect().top - place, behavior: "instant" });
    if (document.activeElement === document.body) next?.querySelector("button:enabled")?.focus({ preventScroll: true });
  }, { once: true });
});

// A link may lead to a message on a branch that is not shown: then that branch is asked for.
function reveal() {
  const id = location.hash.match(/^#message-(\w+)$/)?.[1];
  const there = new URL(location.href);
  if (!id || document.querySelector(location.hash) || there.searchParams.get("message") === id) return;
  there.searchParams.set("message", id);
  location.replace(there);
}
addEventListener("hashchange", reveal);
reveal();
