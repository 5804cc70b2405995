"""What goes wrong with another server, told in its own words and ours."""

import json
from typing import Any

from app.errors import AppError, Busy, Invalid, NotFound, Refused, TooLarge, Unavailable

_LONGEST = 500
_KINDS: dict[int, type[AppError]] = {401: Refused, 403: Refused, 404: NotFound, 413: TooLarge, 429: Busy}


class Unreachable(Unavailable):
    """There is no connection to a server, or it broke."""


class Silent(TimeoutError):
    """A server said nothing for too long."""


ELSEWHERE = (Unavailable, Busy, Silent)
"""Faults of one server: another may do better. All others are of what was asked."""


def told(name: str, status: int, content: bytes) -> AppError:
    """The answer of a server that did not do what was asked, as an error of ours with its words."""
    kind = _KINDS.get(status, Invalid if status < 500 else Unavailable)
    return kind(f"{name} says: {_words(content) or f'error {status}'}")


def broken_off(name: str, error: Any) -> Unavailable:
    """The error that a server tells in the middle of an answer."""
    return Unavailable(f"{name} says: {_message(error) or 'the answer failed'}")


def _words(content: bytes) -> str:
    text = content.decode("utf-8", "replace").strip()
    try:
        body = json.loads(text)
    except ValueError:
        # A page of a proxy is of no use to a person.
        return "" if text.startswith("<") else text[:_LONGEST]
    return _message(body)


def _message(body: Any) -> str:
    """The words in an error of OpenAI's form, of FastAPI's, or of no form at all."""
    for name in ("error", "message", "detail", "msg"):
        if isinstance(body, dict) and name in body:
            return _message(body[name])
    if isinstance(body, list) and body:
        return _message(body[0])
    return body.strip()[:_LONGEST] if isinstance(body, str) else json.dumps(body)[:_LONGEST] if body else ""
