"""Exports of each program, told apart by the shape of one conversation."""

from collections.abc import Callable
from typing import Any

from app.transfer.drafts import Draft, Unreadable
from app.transfer.sources import chatgpt, chatui, claude, librechat, openwebui, rheo

_READERS: tuple[tuple[Callable[[dict[str, Any]], bool], Callable[[dict[str, Any]], Draft]], ...] = (
    (chatgpt.recognises, chatgpt.read),
    (claude.recognises, claude.read),
    (openwebui.recognises, openwebui.read),
    (librechat.recognises, librechat.read),
    (chatui.recognises, chatui.read),
    (rheo.recognises, rheo.read),
)


def draft_of(value: Any) -> Draft:
    """One conversation of any export that we know. Raises `Unreadable`."""
    if isinstance(value, dict):
        for recognises, read in _READERS:
            if recognises(value):
                return read(value)
    raise Unreadable("this is not a conversation of any export that Rheo knows")
