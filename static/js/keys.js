// The keys of the page: shortcuts, the way through the list of conversations, renaming.

const dialog = document.getElementById("dialog");

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
  const links = [...document.querySelectorAll('#sidebar [data-testid="new-conversation"], #sidebar .conversation-link')];
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
