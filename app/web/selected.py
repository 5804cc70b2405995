"""The conversations that a form names: those that were ticked in a list, or the one of a menu."""

from typing import Annotated

from fastapi import Depends, Request

from app.errors import Invalid

MOST = 1000
"""Conversations in one selection."""


async def _chosen(request: Request) -> list[str]:
    # Beside each of them a form has a few fields of its own.
    form = await request.form(max_fields=MOST + 500)
    chosen = [value for value in form.getlist("conversation") if isinstance(value, str)]
    if not chosen:
        raise Invalid("Nothing is chosen yet: tick some conversations first.")
    if len(chosen) > MOST:
        raise Invalid(f"{len(chosen)} conversations are chosen; at most {MOST} can be at once. Nothing was changed.")
    return chosen


Chosen = Annotated[list[str], Depends(_chosen)]
