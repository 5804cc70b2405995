// Copying a message, its Markdown, or a block of code.
import { say } from "./announce.js";

const COPIED_MS = 2000;

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
