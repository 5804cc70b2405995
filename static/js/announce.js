// Tells screen readers what happens: "Answering", then whole sentences as they are complete, then "Done".

const EVERY_MS = 1500;
const LETTER = /[\p{L}\p{N}]/gu;
const SENTENCES = /^[^]*(?:[.!?…]["'”’)\]]*(?=\s)|[。！？]["'」』）]*|\n)/u;
const ENDINGS = { finished: "Done.", stopped: "Stopped.", interrupted: "Interrupted." };

const region = document.getElementById("announcer");
const messages = document.getElementById("messages");
// How much of each running answer was said, in letters and digits: those stay the same when marks of
// Markdown become formatting, and when the bubble comes anew after a cut connection.
const said = new Map();
let waiting = [];
let timer = null;

/** Say this politely, soon: what comes within a moment is said together. */
export function say(words) {
  if (words) waiting.push(words);
  timer ??= setTimeout(speak, waiting.length ? 100 : EVERY_MS);
}

function speak() {
  timer = null;
  for (const id of said.keys()) readOn(document.getElementById(id));
  if (!waiting.length) return;
  const line = document.createElement("p");
  line.textContent = waiting.join(" ");
  region.replaceChildren(line);
  waiting = [];
  timer = setTimeout(speak, EVERY_MS);
}

// Thinking and the heads of code blocks are there for who looks for them; they are not said unasked.
const BESIDE = ".thinking, .code-head";
const letters = (text) => text.match(LETTER)?.length ?? 0;

function textOf(bubble) {
  const body = bubble?.querySelector(".message-body")?.cloneNode(true);
  if (!body) return "";
  for (const beside of body.querySelectorAll(BESIDE)) beside.remove();
  return [...body.children].map((block) => block.textContent).join("\n");
}

function readOn(bubble, whole = false) {
  if (!bubble || !said.has(bubble.id)) return;
  const rest = after(textOf(bubble), said.get(bubble.id));
  const ready = whole ? rest : (rest.match(SENTENCES)?.[0] ?? "");
  if (!letters(ready)) return;
  said.set(bubble.id, said.get(bubble.id) + letters(ready));
  waiting.push(ready.replace(/^[\s\p{P}]+|[*_`#>|~]+/gu, "").trim());
}

function after(text, count) {
  const letter = new RegExp(LETTER);
  while (count > 0 && letter.test(text)) count -= 1;
  return text.slice(letter.lastIndex);
}

// What an answer says already when its page opens is there to be read; one that comes to an open page is new.
function meet(bubble, known = "") {
  if (bubble.dataset?.role !== "assistant") return;
  if (bubble.hasAttribute("aria-busy")) {
    if (said.has(bubble.id)) return;
    said.set(bubble.id, letters(known));
    say("Answering.");
  } else if (said.has(bubble.id)) {
    readOn(bubble, true);
    said.delete(bubble.id);
    // A failure speaks for itself: it is an alert.
    say(ENDINGS[bubble.dataset.state]);
  }
}

document.addEventListener("htmx:sse:after:message", () => say());
if (messages) new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach((node) => meet(node)))).observe(messages, { childList: true });
document.addEventListener("rheo:ended", ({ target }) => meet(target));
messages?.querySelectorAll(".message").forEach((bubble) => meet(bubble, textOf(bubble)));
