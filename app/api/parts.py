"""The parts of the application that the door for programs works with, and who comes through it."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.api.keys import Keys
from app.database import Database
from app.engines.catalog import Catalog
from app.generation.runner import Runner
from app.generation.steering import Steering
from app.metrics import Metrics
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """Built and wired by the factory.

    `owner` is whose conversations those become that programs have kept; `began` is when this process did, in Unix
    seconds.
    """

    settings: Settings
    steering: Steering
    database: Database
    catalog: Catalog
    runner: Runner
    metrics: Metrics
    keys: Keys
    owner: str
    began: int


async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


def _caller(request: Request) -> str:
    # Those without a key share the turns of one owner, apart from the page's.
    name: str | None = request.scope.get("rheo.caller")
    return "programs" if name is None else f"key {name}"


PartsOf = Annotated[Parts, Depends(_parts)]
Caller = Annotated[str, Depends(_caller)]
"""Whose turns a request takes in the queue."""
