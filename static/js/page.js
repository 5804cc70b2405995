// What the page does around the conversation: copying, dialogs, the sidebar on narrow screens, colours.
import { say } from "./announce.js";

const COPIED_MS = 2000;
const dialog = document.getElementById("dialog");
const sidebar = document.getElementById("sidebar");
const opener = document.getElementById("open-sidebar");

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-code], [data-copy-source]");
  if (!button) return;
  event.preventDefault();
  const copied = await copy(button.href ? sourceAt(button.href) : textOf(shownBy(button)));
  say(copied ? "Copied." : "Copying did not work.");
  button.toggleAttribute("data-copied", copied);
  button.title = copied ? "Copied" : "Copying did not work";
  setTimeout(() => {
    button.removeAttribute("data-copied");
    button.title = button.ariaLabel;
  }, COPIED_MS);
});

const shownBy = (button) => document.getElementById(button.dataset.copy) ?? button.closest(".code-block").querySelector("code");

async function sourceAt(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.status}`);
  return response.text();
}

// As it is seen, without the heads of code blocks.
function textOf(element) {
  element.classList.add("copying");
  const text = element.innerText;
  element.classList.remove("copying");
  if (!element.classList.length) element.removeAttribute("class");
  return text;
}

// Takes a text, or the promise of one: Safari must be told of it in the click, and may get it later.
async function copy(text) {
  try {
    const blob = Promise.resolve(text).then((plain) => new Blob([plain], { type: "text/plain" }));
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
    return true;
  } catch {
    return Promise.resolve(text).then(copyBySelection, () => false);
  }
}

// Outside of secure contexts (plain http in a home network) there is no clipboard API.
function copyBySelection(text) {
  const before = document.activeElement;
  const field = document.createElement("textarea");
  field.className = "visually-hidden";
  field.value = text;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  before?.focus({ preventScroll: true });
  return copied;
}

// A menu that asked is closed by then; the keyboard goes back to the button that opened it.
let asker = null;
document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  const source = ctx.sourceElement;
  const menu = source.closest(".menu");
  if (menu) asker = document.querySelector(`[popovertarget="${menu.id}"]`);
  else if (source.matches("[hx-target='#dialog']") && !dialog.contains(source)) asker = source;
});

// The server fills the dialog to ask, and empties it when all is done.
document.addEventListener("htmx:after:swap", () => {
  if (dialog.childElementCount && !dialog.open) {
    dialog.showModal();
    dialog.querySelector("input[autofocus]")?.select();
  } else if (!dialog.childElementCount && dialog.open) {
    dialog.close();
  }
});
dialog.addEventListener("click", (event) => {
  if (event.target !== dialog && !event.target.closest("[data-close]")) return;
  event.preventDefault();
  dialog.close();
});
dialog.addEventListener("close", () => {
  dialog.replaceChildren();
  // The gauge is made anew with each count.
  if (asker?.id && !asker.isConnected) asker = document.getElementById(asker.id);
  (asker?.checkVisibility() ? asker : opener).focus();
});

sidebar.addEventListener("toggle", ({ newState }) => {
  opener.setAttribute("aria-expanded", String(newState === "open"));
  if (newState === "open") sidebar.querySelector("button, a").focus();
});

// What a menu did to an entry made the list anew: the keyboard goes on at the entry, or at the undoing.
document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  const source = ctx?.sourceElement;
  if (!source?.matches?.("form.menu, #undo form, .retitle") || dialog.open) return;
  const undo = source.matches(".menu") && document.querySelector("#undo button");
  if (undo && sidebar.matches(":popover-open")) sidebar.hidePopover();
  if (document.activeElement !== document.body) return;
  const entry = source.matches(".menu") && document.getElementById(asker?.id);
  (undo || entry || document.getElementById("composer-input")).focus({ preventScroll: true });
});

// Keys lead to what names them in its aria-keyshortcuts. What is written in a field keeps the keys of editing, and
// the conversion of an input method all.
document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.keyCode === 229 || dialog.open) return;
  const { key, target } = event;
  const held = ["Control", "Alt", "Meta", "Shift"].filter((name) => event.getModifierState(name));
  const keys = [...held, key.length === 1 ? key.toUpperCase() : key].join("+");
  const writing = target.matches?.("select") || (target.matches?.("input, textarea") && target.value);
  if (writing && held.includes("Alt")) return;
  const found = keys === "Alt+ArrowUp" ? beside(-1) : keys === "Alt+ArrowDown" ? beside(1) : named(keys);
  if (!found) return;
  event.preventDefault();
  if (keys === "F2") rename(found);
  else if (found.matches("input")) found.focus();
  else found.click();
});

const named = (keys) => document.querySelector(`[aria-keyshortcuts~="${CSS.escape(keys)}"]`);

// The conversation before or after the open one; before the first stands the new chat.
function beside(step) {
  const links = [...sidebar.querySelectorAll('[data-testid="new-conversation"], .conversation-link')];
  return links[Math.max(links.findIndex((link) => link.matches("[aria-current]")), 0) + step];
}

// In the list the entry that has the focus, else what is open.
function rename(heading) {
  const entry = document.activeElement.closest(".entry:not(:has([aria-current]))");
  const open = document.querySelector(".retitle input");
  if (entry) entry.querySelector('[href$="/title"]').click();
  else if (open) open.select();
  else heading.dispatchEvent(new Event("rheo:rename"));
}

document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  if (ctx?.sourceElement?.matches?.("h1")) document.querySelector(".retitle input")?.select();
});
document.addEventListener("keydown", ({ target, key, isComposing }) => {
  if (key !== "Escape" || isComposing || !target.matches?.(".retitle input")) return;
  const { form } = target;
  document.getElementById("composer-input").focus();
  form.remove();
});
document.addEventListener("focusout", ({ target }) => {
  if (target.matches?.(".retitle input") && target.value === target.defaultValue && document.hasFocus()) target.form?.remove();
});

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
  const question = ctx.sourceElement.closest(".message").querySelector(".revision textarea");
  if (!question) return;
  opened = timeStamp;
  question.setSelectionRange(question.value.length, question.value.length);
  question.scrollTop = question.scrollHeight;
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

// What is still being composed (Japanese, Chinese, Korean) is not looked for; what was chosen then is.
const box = document.getElementById("search-input");
document.addEventListener("input", (event) => {
  if (event.target === box && event.isComposing) event.stopPropagation();
}, true);
box?.addEventListener("compositionend", () => box.dispatchEvent(new Event("input", { bubbles: true })));

// Down from the box through the hits and up again; Escape empties the box.
document.addEventListener("keydown", (event) => {
  if (event.isComposing || !box?.form || !["ArrowDown", "ArrowUp", "Escape"].includes(event.key)) return;
  const places = [box, ...document.querySelectorAll("#found [data-testid='search-hit'], #older-hits a")];
  const at = places.indexOf(event.target);
  if (at < 0) return;
  event.preventDefault();
  if (event.key !== "Escape") places[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
  else if (at > 0) box.focus();
  else if (box.value) {
    box.value = "";
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }
});

const theme = document.getElementById("theme");
const THEMES = ["system", "light", "dark"];

function show() {
  const chosen = document.documentElement.dataset.theme ?? "system";
  theme.ariaLabel = theme.title = `Colours: ${chosen}`;
  return chosen;
}

theme.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(show()) + 1) % THEMES.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("rheo-theme", next);
  } catch {
    // Storage may be forbidden; then the choice holds for this page.
  }
  show();
});
show();
