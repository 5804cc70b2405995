// Watches every answer of the page: what was shown may only grow, except where its reader stops it.
// A page that is loaded anew may begin a little before the end of what the old one had shown last,
// and must come to it again; so the longest text of each answer is kept for the tab.
(() => {
  const now = new Map();

  const lose = (message, before, text) => {
    const kept = JSON.parse(sessionStorage.getItem("chaos-losses") ?? "[]");
    let at = 0;
    while (at < before.length && before[at] === text[at]) at += 1;
    const near = (whole) => `«${whole.slice(Math.max(0, at - 20), at + 30)}»`;
    kept.push(`${message.id} (${message.dataset.state}), at ${at}: ${near(before)} became ${near(text)}`);
    sessionStorage.setItem("chaos-losses", JSON.stringify(kept));
  };

  const look = () => {
    // A page that is still read shows half of a text that is whole.
    if (document.readyState === "loading") return;
    for (const message of document.querySelectorAll('[data-testid="message"][data-role="assistant"]')) {
      const body = message.querySelector('[data-testid="message-body"]');
      const state = message.dataset.state;
      const key = `chaos:${message.id}`;
      const text = body?.textContent.trim();
      const seen = `${state} ${text}`;
      if (!body || now.get(key)?.seen === seen) continue;
      const before = now.get(key)?.text ?? "";
      const longest = sessionStorage.getItem(key) ?? "";
      now.set(key, { seen, text });
      if (state === "stopped") {
        sessionStorage.setItem(key, text);
      } else if (!text.startsWith(before)) {
        lose(message, before, text);
      } else if (text.startsWith(longest)) {
        sessionStorage.setItem(key, text);
      } else if (!message.hasAttribute("aria-busy") || !longest.startsWith(text)) {
        lose(message, longest, text);
      }
    }
  };
  document.addEventListener("DOMContentLoaded", look);
  new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true, attributes: true });
})();
