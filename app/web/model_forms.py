"""Which model people choose for a chat, as their forms say it."""

from typing import Annotated

from fastapi import Depends

from app.engines.catalog import GONE
from app.errors import Invalid
from app.web.forms import Fields
from app.web.parts import Parts

_LONGEST = 255


async def _model(fields: Fields) -> str | None:
    return fields.get("model", "")[:_LONGEST] or None


ChosenModel = Annotated[str | None, Depends(_model)]
"""The model of the picker; None where nothing was chosen, as where there is only one."""


def check_model(parts: Parts, model: str | None) -> None:
    """Raises `Invalid` where there is no such model (any more)."""
    if model is not None and not parts.catalog.has(model):
        raise Invalid(f"The model {model} can’t answer: {GONE}. Choose another one.")
