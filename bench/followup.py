"""A follow-up in a long chat against a fresh prompt of that length: how much earlier turns are read again."""

import asyncio
import statistics

from bench.figures import compared
from bench.load import Answer, ask_rheo, counts, long_text
from bench.plan import Plan
from bench.report import Row, Section, compared_row
from bench.servers import Server, rheo

LENGTH = 1500
TOKENS = 16


def measure(plan: Plan) -> Section:
    """Each pair is one chat: its long first turn, then its second."""
    with rheo(temperature=0, max_tokens=TOKENS) as server:
        server.wait("/ready")
        _ask(server, "Hello", "/conversations")
        pairs: list[tuple[float, float]] = []
        reused, lengths = [], []
        for number in range(plan.pairs(7)):
            if pairs and plan.late:
                break
            fresh = _ask(server, long_text(LENGTH), "/conversations")
            second = _ask(server, "And what was seen on day 3?", fresh.conversation)
            cost = counts(server, second.generation)
            pairs.append((second.first_s, fresh.first_s))
            reused.append(cost["reused_tokens"])
            lengths.append(cost["prompt_tokens"])
            plan.note(f"chat {number + 1}: {second.first_s:.3f} s after {fresh.first_s:.3f} s, {cost}")
    rows = [
        compared_row("follow-up, time to first token", compared(pairs), "s", most=0.2),
        Row(
            "follow-up, prompt tokens not read again",
            f"{statistics.median(reused):.0f}",
            f"{statistics.median(lengths):.0f} in all",
            f"{statistics.median(reused) / statistics.median(lengths):.2f}",
        ),
    ]
    method = (
        f"a new chat whose first message is about {LENGTH} tokens long, then a short second message in it; over "
        "HTTP, from sending to the first text. Reused tokens as the engine told them (table `generations`)."
    )
    return Section("A follow-up in a long chat", method, rows)


def _ask(server: Server, text: str, path: str) -> Answer:
    return asyncio.run(ask_rheo(server.port, text, path))
