"""At the start: what a process that is gone has left unended."""

import logging

from app.database import Database, now
from app.events.protocol import EventLog
from app.generation.queries import Run, unended
from app.generation.runner import Job, Runner

log = logging.getLogger(__name__)


def recover(database: Database, events: EventLog, runner: Runner) -> None:
    """Queue again what had not begun; give what had begun the text that was kept, as interrupted."""
    with database.write() as session:
        runs = unended(session)
        for found in runs:
            if found.message.state == "running":
                _interrupt(found, events)
    waiting = [found for found in runs if found.message.state == "queued"]
    for found in waiting:
        runner.submit(Job(found.generation.id, found.conversation.id), bounded=False)
    events.discard(events.runs() - {found.generation.id for found in waiting})
    if runs:
        log.info("Found %d unended answers; %d of them wait again", len(runs), len(waiting))


def _interrupt(found: Run, events: EventLog) -> None:
    kept = events.snapshot(found.generation.id, found.generation.covered)
    found.message.text += kept.text
    found.message.token_ids = (found.message.token_ids or []) + list(kept.token_ids)
    found.message.state = "interrupted"
    found.message.ending = "restart"
    found.generation.covered = kept.number + 1
    found.generation.ended_at = now()
