// The composer: Enter sends, nothing that was written is lost, errors are told beside what was sent.

const input = () => document.getElementById("composer-input");
const place = () => `rheo-draft:${location.pathname}`;
const SAVE_MS = 300;
let sent = null;
let converting = false;

// The Enter that ends an input method's conversion belongs to the conversion. Safari ends it first and
// then tells of the key, with 229; its single-line fields would send their form.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  if (event.isComposing || event.keyCode === 229) {
    if (event.target instanceof HTMLInputElement) event.preventDefault();
  } else if (event.target.matches?.("#composer-input, .revision textarea") && !event.shiftKey && !event.altKey) {
    event.preventDefault();
    if (!event.repeat) event.target.form.requestSubmit();
  }
});
document.addEventListener("compositionstart", () => (converting = true));
document.addEventListener("compositionend", () => (converting = false));

document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  tell(ctx.sourceElement, "");
  if (ctx.sourceElement.id === "composer") sent = input().value;
});

document.addEventListener("htmx:before:swap", ({ detail: { ctx, tasks } }) => {
  if (ctx.sourceElement.id !== "composer") return;
  const fresh = tasks.findIndex((task) => task.target?.id === "composer");
  if (fresh < 0) return;
  forget();
  goOn(ctx.sourceElement, tasks.splice(fresh, 1)[0].fragment.querySelector("form"));
});

// The composer stays, with what was written on in it while the message was under way, and becomes the next sending:
// to take a field with the focus out of the page costs the time of a layout, just when the first word should come.
function goOn(form, next) {
  for (const name of ["action", "hx-post"]) form.setAttribute(name, next.getAttribute(name));
  for (const field of form.querySelectorAll("input[type=hidden]")) field.remove();
  form.prepend(...next.querySelectorAll("input[type=hidden]"));
  const gone = sent;
  const cut = () => {
    if (input().value.startsWith(gone)) input().setRangeText("", 0, gone.length, "preserve");
    direct(input(), input().value);
    input().style.height = "";
  };
  if (converting) input().addEventListener("compositionend", cut, { once: true });
  else cut();
  if (document.activeElement !== input()) input().focus({ preventScroll: true });
}

document.addEventListener("htmx:error", ({ detail: { ctx, error } }) => {
  if (!ctx) return;
  const late = error?.name === "AbortError";
  tell(ctx.sourceElement, late ? "Rheo took too long to answer. Try again." : "Rheo can’t be reached. Try again when it is back.");
});

// Our own errors bring their words along; those of a proxy on the way do not.
document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
  if (!ctx.text.includes("<hx-partial")) tell(ctx.sourceElement, `The server answered with error ${ctx.response.status}. Try again.`);
});

function tell(source, words) {
  if (!source.matches("form, a[hx-get]")) return;
  const notice = source.querySelector(".notice") ?? document.getElementById("notice");
  if (notice) notice.textContent = words;
}

// The focused Stop button goes away with the end of the answer; the keyboard must not start at the top then.
document.addEventListener("htmx:before:swap", () => {
  if (!document.activeElement?.closest("#stop-form, .try-again, .go-on, .answer-again, .revision, #undo")) return;
  document.addEventListener("htmx:after:swap", () => document.activeElement === document.body && input()?.focus({ preventScroll: true }), { once: true });
});

// What is not sent yet survives a reload, a crash and another conversation.
let saving = 0;
document.addEventListener("input", ({ target }) => {
  if (target !== input()) return;
  clearTimeout(saving);
  saving = setTimeout(keep, SAVE_MS);
});
addEventListener("pagehide", keep);

function keep() {
  clearTimeout(saving);
  try {
    if (input()?.value) localStorage.setItem(place(), input().value);
    else localStorage.removeItem(place());
  } catch {
    // Too long for the store, or no store: the draft lives as long as the page.
  }
}

function forget() {
  clearTimeout(saving);
  try {
    localStorage.removeItem(place());
  } catch {
    // No store, no draft.
  }
}

function recall() {
  try {
    return localStorage.getItem(place());
  } catch {
    return null;
  }
}

// The browser finds dir=auto again from the whole text at every change: with a megabyte that takes over a second.
// A long text is told the direction of its first letter, before it comes.
const LONG_TEXT = 50_000; // characters
const BEGINS_RTL = /^\P{L}*[\p{Script=Adlam}\p{Script=Arabic}\p{Script=Hanifi_Rohingya}\p{Script=Hebrew}\p{Script=Mandaic}\p{Script=Nko}\p{Script=Samaritan}\p{Script=Syriac}\p{Script=Thaana}]/u;

function direct(field, text) {
  const direction = text.length < LONG_TEXT ? "auto" : BEGINS_RTL.test(text) ? "rtl" : "ltr";
  if (field.dir !== direction) field.dir = direction;
}

document.addEventListener("beforeinput", ({ target, data, dataTransfer }) => {
  if (!target.matches?.("textarea[dir]")) return;
  const { value, selectionStart, selectionEnd } = target;
  direct(target, value.slice(0, selectionStart) + (data ?? dataTransfer?.getData("text/plain") ?? "") + value.slice(selectionEnd));
});
document.addEventListener("input", ({ target }) => target.matches?.("textarea[dir]") && direct(target, target.value));

if (input() && !input().value) {
  const draft = recall() ?? "";
  direct(input(), draft);
  input().value = draft;
}

// The context is counted again when what would be sent has changed: by typing, by new settings, by a turn's end
// (not by its beginning: until then the gauge tells what was sent), by a model that is loaded.
const COUNT_MS = 400;
let counting = 0;
let counted = standing();

function standing() {
  const last = document.getElementById("messages").lastElementChild;
  const { model, state } = document.getElementById("model-state").dataset;
  return [model, state, last?.id, last?.dataset.state].join(" ");
}

function count() {
  clearTimeout(counting);
  counting = setTimeout(() => document.getElementById("context").dispatchEvent(new Event("rheo:count")), COUNT_MS);
}

document.addEventListener("input", ({ target }) => target === input() && count());
function recount({ detail }) {
  const now = standing();
  if (now === counted && !detail?.ctx?.sourceElement?.matches("form[action$='/steering']")) return;
  if (/(queued|running)$/.test(now)) return;
  counted = now;
  count();
}

document.addEventListener("htmx:after:swap", recount);
document.addEventListener("rheo:ended", recount);
if (input()?.value) count();

if (!CSS.supports("field-sizing", "content")) {
  document.addEventListener("input", ({ target }) => {
    if (target !== input()) return;
    target.style.height = "auto";
    target.style.height = `${target.scrollHeight + 2}px`;
  });
}
