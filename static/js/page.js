// What the page does around the conversation: dialogs, the sidebar and its search, the title's form, colours.

const dialog = document.getElementById("dialog");
const sidebar = document.getElementById("sidebar");
const opener = document.getElementById("open-sidebar");

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

// The title is changed in its place; left as it was, or with Escape, the form is gone.
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
