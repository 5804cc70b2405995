"""The parts of the application that handlers work with, as one dependency."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.conversations.models import Conversation
from app.conversations.purger import Purger
from app.database import Database
from app.engines.catalog import Catalog
from app.errors import Busy
from app.events.protocol import EventLog
from app.generation.job import Job
from app.generation.models import Generation
from app.generation.recorder import Recorder
from app.generation.replayer import Replayer
from app.generation.reruns import Rerunner
from app.generation.runner import Runner
from app.generation.steering import Steering
from app.generation.titling import Titling
from app.metrics import Metrics
from app.settings import Settings
from app.transfer.importer import Importer
from app.web.screens import Screens


@dataclass(frozen=True, slots=True)
class Parts:
    """Built and wired by the factory; lives as long as the application."""

    settings: Settings
    steering: Steering
    """What answers are made with where their conversation says nothing else."""
    database: Database
    events: EventLog
    catalog: Catalog
    metrics: Metrics
    recorder: Recorder
    runner: Runner
    titling: Titling
    screens: Screens
    importer: Importer
    replayer: Replayer
    rerunner: Rerunner
    purger: Purger

    @contextmanager
    def starting(self, generation: Generation | None, conversation: Conversation) -> Iterator[None]:
        """Have a committed generation run once its page is rendered: both at one time keep each other waiting."""
        try:
            yield
        finally:
            if generation is not None:
                self.start(generation, conversation)

    def start(self, generation: Generation, conversation: Conversation) -> None:
        """Have a committed generation run. Where there is no room for it, its answer says so."""
        job = Job(self.recorder, generation.id, conversation.id, conversation.owner, model=generation.model)
        try:
            self.runner.submit(job)
        except Busy as error:
            self.recorder.refuse(job, error)


async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


PartsOf = Annotated[Parts, Depends(_parts)]
