"""The parts of the application that handlers work with, as one dependency."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.conversations.models import Conversation
from app.database import Database
from app.engines.catalog import Catalog
from app.errors import Busy
from app.events.protocol import EventLog
from app.generation.job import Job
from app.generation.models import Generation
from app.generation.recorder import Recorder
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

    def start(self, generation: Generation, conversation: Conversation) -> None:
        """Have a committed generation run. Where there is no room for it, its answer says so."""
        job = Job(self.recorder, generation.id, conversation.id, conversation.owner, model=generation.model)
        try:
            self.runner.submit(job)
        except Busy as error:
            self.recorder.refuse(job, error)


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


PartsOf = Annotated[Parts, Depends(_parts)]
