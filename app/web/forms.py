"""What people send, parsed and checked; every refusal is in their words and keeps their text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from app.conversations.titles import is_blank
from app.errors import Invalid
from app.settings import Settings
from app.texts import clean

LONGEST_TITLE = 300


@dataclass(frozen=True, slots=True)
class TurnForm:
    """A message to be sent. `submission` is the id of this one sending."""

    text: str
    submission: str
    leaf: str | None = None
    """The last message that the page showed; None where the sender does not tell."""

    def check(self, settings: Settings) -> None:
        """Raises `Invalid` where the message can't be sent."""
        if is_blank(self.text):
            raise Invalid("There is nothing to send yet: write a message first.")
        if len(self.text) > settings.message_chars:
            raise Invalid(
                f"This message is {len(self.text):,} characters long; at most {settings.message_chars:,} can be sent."
            )


async def _fields(request: Request) -> Mapping[str, str]:
    # What comes in is counted already (Guard); a limit for each field would refuse without their text.
    settings: Settings = request.app.state.settings
    form = await request.form(max_part_size=settings.body_bytes)
    return {name: value for name, value in form.items() if isinstance(value, str)}


Fields = Annotated[Mapping[str, str], Depends(_fields)]


async def _turn_form(fields: Fields) -> TurnForm:
    return TurnForm(clean(fields.get("text", "")), fields.get("submission", "")[:64], fields.get("leaf"))


PostedTurn = Annotated[TurnForm, Depends(_turn_form)]


async def _title(fields: Fields) -> str:
    title = " ".join(clean(fields.get("title", "")).split())
    if is_blank(title):
        raise Invalid("A title needs at least one character.")
    if len(title) > LONGEST_TITLE:
        raise Invalid(f"This title is {len(title):,} characters long; at most {LONGEST_TITLE} can be kept.")
    return title


PostedTitle = Annotated[str, Depends(_title)]


async def _seen(request: Request) -> int | None:
    """The last event that the reader saw; anything that is no whole number counts as not said."""
    try:
        seen = (await _fields(request)).get("seen", "")
    except ClientDisconnect:
        return None  # whoever closes the page right after pressing has pressed all the same
    return int(seen) if seen.isdecimal() and len(seen) < 16 else None


PostedSeen = Annotated[int | None, Depends(_seen)]
