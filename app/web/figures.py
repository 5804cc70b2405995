"""The line under an answer: which model, how much, how fast, and how it ended."""

from app.conversations.models import Message
from app.generation.models import Generation

ENDINGS = {
    "stop": "finished",
    "length": "cut at its longest length",
    "cancelled": "stopped",
    "error": "failed",
    "timeout": "failed",
    "restart": "interrupted",
}


def speed(tokens: int, seconds: float) -> str:
    """How many tokens, and how many a second since the first."""
    count = f"{tokens:,} token" if tokens == 1 else f"{tokens:,} tokens"
    return f"{count} · {_short((tokens - 1) / seconds)} tokens/s" if tokens > 1 and seconds > 0 else count


def figures(message: Message, generation: Generation) -> str:
    """What there is to say of an answer that has ended: of its latest run."""
    parts = [message.model] if message.model else []
    first, last = generation.first_token_s, generation.last_token_s
    if generation.answer_tokens and first is not None and last is not None:
        parts.append(speed(generation.answer_tokens, last - first))
        parts.append(f"first token after {_short(first + _waited_s(generation))} s")
    parts.append(ENDINGS.get(message.ending or "", ""))
    return " · ".join(part for part in parts if part)


def _waited_s(generation: Generation) -> float:
    """From the question to the start of the run, which is where its own time begins."""
    if generation.started_at is None:
        return 0.0
    return max(0.0, (generation.started_at - generation.created_at).total_seconds())


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"
