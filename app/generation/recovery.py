"""At the start: what a process that is gone has left unended goes on, once."""

import logging

from app.database import Database
from app.events.protocol import EventLog
from app.generation.job import Cancellation, Job
from app.generation.queries import Run, unended
from app.generation.recorder import OUTCOMES, Recorder
from app.generation.runner import Runner

log = logging.getLogger(__name__)

MOST_RESTARTS = 1
"""How often an answer goes on by itself: one that brings the process down each time must not do so for ever."""


def recover(database: Database, events: EventLog, recorder: Recorder, runner: Runner) -> None:
    """Queue again what was queued or running; end what a reader had stopped, or what was continued before."""
    with database.write() as session:
        runs = unended(session)
        going_on = [found for found in runs if _goes_on(found)]
        for found in going_on:
            if found.message.state == "running":
                found.message.state = "queued"
                found.generation.restarts += 1
    for found in runs:
        if found in going_on:
            runner.submit(_job(recorder, found), bounded=False)
        else:
            recorder.close(_job(recorder, found), OUTCOMES["cancelled" if found.generation.stop_asked else "restart"])
    # What ended as the process did may have left its pieces.
    events.discard(events.runs() - {found.generation.id for found in runs})
    if runs:
        log.info("Found %d unended answers; %d of them go on", len(runs), len(going_on))


def _goes_on(found: Run) -> bool:
    if found.generation.stop_asked:
        return False
    return found.message.state == "queued" or found.generation.restarts < MOST_RESTARTS


def _job(recorder: Recorder, found: Run) -> Job:
    cancellation = Cancellation(seen=found.generation.stop_seen)
    resumed = found.generation.restarts > 0
    generation, conversation = found.generation, found.conversation
    return Job(recorder, generation.id, conversation.id, conversation.owner, resumed, generation.model, cancellation)
