"""The page in a real browser: what the first one costs, what a token costs, how soon a first word is there."""

import asyncio
import statistics
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from bench.browser import Tab, browsing
from bench.load import ask_rheo
from bench.plan import Plan
from bench.report import Row, Section
from bench.servers import Server, rheo

RATE = 200
TOKEN_MS = 0.6
LONG_MS = 50
WORD_MS = 100
PARAGRAPH = [*(f" word{number}" for number in range(49)), ".\n\n"]
RICH = """## What it does

Some *text* with `code`, a [link](https://example.org/) and **bold words** of which there are a few in each part.

- one item, and what there is to say of it
- another, with `code` in it
  1. and one that is deeper

```python
def answer(question: str) -> int:
    \"\"\"What is asked for.\"\"\"
    return len(question) * 42
```

| what | how many | formula |
|:-----|---------:|:-------:|
| rows | 12 | $x^2$ |
| columns | 3 | $\\frac{1}{2}$ |

$$\\int_0^1 x\\,dx = \\frac{1}{2}$$

> A quotation that goes on for a line.

"""
INSTANT = {"id": "instant", "steps": ["Certainly", "."]}
# When Enter goes down, and when the first text of an answer stands in the page.
CLOCK = """
window.bench = {};
bench.answered = new Promise((resolve) => { bench.answer = resolve; });
addEventListener("keydown", (event) => { if (event.key === "Enter") bench.pressed = performance.now(); }, true);
new MutationObserver(() => {
  const bodies = document.querySelectorAll('[data-role="assistant"] [data-testid="message-body"]');
  if (!bench.first && bodies.length && bodies[bodies.length - 1].textContent.trim()) {
    bench.first = performance.now();
    bench.answer(bench.first - bench.pressed);
  }
}).observe(document, { subtree: true, childList: true, characterData: true });
bench.ended = new Promise((resolve) => { addEventListener("rheo:ended", () => resolve(true), { once: true }); });
bench.long = [];
new PerformanceObserver((list) => list.getEntries().forEach((task) => bench.long.push(task.duration)))
  .observe({ type: "longtask" });
"""
PAINT = 'performance.getEntriesByName("first-contentful-paint")[0]?.startTime'

Open = Callable[[str], Tab]


def measure(plan: Plan) -> Section:
    """A scripted model answers; the browser is Chromium without a window."""
    repeat = 6 if plan.quick else 60
    tokens = repeat * len(PARAGRAPH)
    long: dict[str, Any] = {"id": "long", "delay_ms": 1000 / RATE, "steps": PARAGRAPH, "repeat": repeat}
    long |= {"context_window": 10_000}
    rich = long | {"id": "rich", "steps": [RICH[place : place + 4] for place in range(0, len(RICH), 4)]}
    rich |= {"repeat": -(-tokens // len(rich["steps"]))}
    with rheo(script=[rich], max_tokens=tokens) as server, browsing() as open_tab:
        server.wait("/ready")
        rich_rows = _long_answer(open_tab, server, tokens, "of code, tables and formulas")
    with rheo(script=[long], max_tokens=tokens) as server:
        server.wait("/ready")
        wire = asyncio.run(ask_rheo(server.port, "Go on")).wire
        text = repeat * sum(len(step) for step in PARAGRAPH)
        with browsing() as open_tab:
            rows = [
                *_first_page(open_tab, server, plan),
                *_long_answer(open_tab, server, tokens, "of prose"),
                *rich_rows,
            ]
    rows.append(Row("stream, bytes for a byte of text", f"{wire / text:.1f}", f"{wire:,} of {text:,}"))
    with rheo(script=[INSTANT]) as server, browsing() as open_tab:
        server.wait("/ready")
        rows.append(_first_word(open_tab, server, plan))
    method = (
        "Chromium without a window, an empty cache each time, a scripted model. Main-thread time is the browser's "
        f"own TaskDuration over an answer of {tokens:,} tokens at {RATE} tokens/s in paragraphs of 50, from Enter to "
        "the saved bubble. Enter to first word is taken inside the page, from the key to text in the answer's "
        "bubble, with a model that answers at once. The bytes of a stream count headers and chunk sizes."
    )
    return Section("The page", method, rows)


def _first_page(open_tab: Open, server: Server, plan: Plan) -> list[Row]:
    paints = []
    for _ in range(plan.pairs(5)):
        tab = _opened(open_tab, server)
        paints.append(tab.number(PAINT))
        traffic = tab.traffic
        tab.page.close()
    plan.note(f"first page: {traffic}, painted after {paints}")
    return [
        Row("first page, requests", f"{traffic.requests}"),
        Row("first page, bytes on the wire", f"{traffic.wire:,}"),
        Row("first contentful paint", f"{statistics.median(paints):.0f} ms", "", _range(paints)),
    ]


def _long_answer(open_tab: Open, server: Server, tokens: int, kind: str) -> list[Row]:
    tab = _opened(open_tab, server)
    before = tab.main_thread_s()
    _ask(tab)
    # Waited for in the page: to ask again and again took up to a quarter of the main thread's time.
    late_ms = tokens / RATE * 1000 * 3 + 10_000
    tab.page.evaluate(
        "late => Promise.race([bench.ended, new Promise((_, no) => setTimeout(no, late, 'late'))])", late_ms
    )
    spent = (tab.main_thread_s() - before) * 1000
    expect(tab.page.locator('[data-testid="message"][data-role="assistant"]')).to_have_attribute(
        "data-state", "finished"
    )
    longest = tab.number("Math.max(0, ...bench.long)")
    tab.page.close()
    a_token = spent / tokens
    return [
        Row(
            f"main-thread time a token, {kind}",
            f"{a_token:.2f} ms",
            f"{spent:,.0f} ms for {tokens:,}",
            "",
            f"≤ {TOKEN_MS} ms",
            a_token <= TOKEN_MS,
        ),
        Row(f"longest task, {kind}", f"{longest:.0f} ms", "0: none over 50 ms", "", "≤ 50 ms", longest <= LONG_MS),
    ]


def _first_word(open_tab: Open, server: Server, plan: Plan) -> Row:
    times = []
    for _ in range(plan.pairs(9)):
        tab = _opened(open_tab, server)
        _ask(tab)
        # Waited for in the page: to ask again and again would take the time from what is measured.
        times.append(tab.page.evaluate("bench.answered"))
        tab.page.close()
    plan.note(f"first word after {[round(time) for time in times]} ms")
    middle = statistics.median(times)
    return Row("Enter to first word", f"{middle:.0f} ms", "", _range(times), f"≤ {WORD_MS} ms", middle <= WORD_MS)


def _opened(open_tab: Open, server: Server) -> Tab:
    tab = open_tab(CLOCK)
    tab.page.goto(f"http://127.0.0.1:{server.port}/", wait_until="networkidle")
    return tab


def _ask(tab: Tab) -> None:
    tab.page.get_by_test_id("composer-input").fill("Go on")
    tab.page.keyboard.press("Enter")


def _range(times: list[float]) -> str:
    return f"{min(times):.0f}–{max(times):.0f} ms"
