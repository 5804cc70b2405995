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

// The menu that asked is closed by then; the keyboard goes back to the button that opened it.
let asker = null;
document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  const menu = ctx.sourceElement.closest(".menu");
  if (menu) asker = document.querySelector(`[popovertarget="${menu.id}"]`);
});

// The server fills the dialog to ask, and empties it when all is done.
document.addEventListener("htmx:after:swap", () => {
  if (dialog.childElementCount && !dialog.open) {
    dialog.showModal();
    dialog.querySelector("input:not([type=hidden])")?.select();
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
  (asker?.checkVisibility() ? asker : opener).focus();
});

sidebar.addEventListener("toggle", ({ newState }) => {
  opener.setAttribute("aria-expanded", String(newState === "open"));
  if (newState === "open") sidebar.querySelector("button, a").focus();
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
