"""What changes on a page as htmx's partials and frames: plain functions, since thousands a second are made."""

from collections.abc import Iterable

from fastapi.sse import format_sse_event

from app.rendering.changes import Change


def partials(changes: Iterable[Change]) -> str:
    """Changes of a body as one text. They are independent of each other, as htmx needs it."""
    return "".join([f'<hx-partial hx-target="{c.target}" hx-swap="{c.swap}">{c.html}</hx-partial>' for c in changes])


def frame(html: str, number: int | None = None) -> bytes:
    """One event of a stream. One with a number is a place to go on from."""
    return format_sse_event(data_str=html, id=str(number) if number is not None else None)
