"""The parts of the application that handlers work with, as one dependency."""

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

FIRST_WORDS_S = 0.03
"""How long a new bubble waits for its first words: a fast model's come with it, and a slow one is not missed yet.
To bring them by a stream of their own takes three times as long, and more while the page renders beside the model."""


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

    def begin(self, generation: Generation | None, conversation: Conversation, *, shown: bool) -> None:
        """Have a generation run that was committed just now, where there is one.

        `shown`: its bubble is rendered next, and first words that come at once come with it.
        """
        if generation is None:
            return
        self.start(generation, conversation)
        if shown:
            self.events.wait(generation.id, generation.covered, FIRST_WORDS_S)

    def start(self, generation: Generation, conversation: Conversation) -> None:
        """Have a committed generation run. Where there is no room for it, its answer says so."""
        self.events.begin(generation.id)
        job = Job(self.recorder, generation.id, conversation.id, conversation.owner, model=generation.model)
        try:
            self.runner.submit(job)
        except Busy as error:
            self.recorder.refuse(job, error)


async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


PartsOf = Annotated[Parts, Depends(_parts)]
