"""Replays: an answer run again from its receipt, how far that is, and what came of it."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.generation.models import Replay
from app.generation.receipts import Kept, add_replay, kept_run, replay_of
from app.web.access import Owner
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.receipts import verdict

router = APIRouter()


@router.post("/generations/{generation_id}/replays")
def create_replay(request: Request, owner: Owner, parts: PartsOf, generation_id: str) -> Response:
    """Run an answer again, alone; where that is under way already, it is shown."""
    with parts.database.write() as session:
        kept = kept_run(session, owner, generation_id)
        replay = add_replay(session, owner, kept)
    if replay is not None:
        parts.replayer.submit(owner, kept.message.id, replay)
    return _see(request, owner, parts, kept, replay)


@router.get("/replays/{replay_id}")
def show_replay(request: Request, owner: Owner, parts: PartsOf, replay_id: str) -> Response:
    """How far it is, or what came of it. The page asks for it again and again."""
    with parts.database.read() as session:
        replay = replay_of(session, owner, replay_id)
        kept = kept_run(session, owner, replay.generation_id)
    return _see(request, owner, parts, kept, replay)


@router.post("/replays/{replay_id}/cancellation")
def create_cancellation(request: Request, owner: Owner, parts: PartsOf, replay_id: str) -> Response:
    """Stop a replay; one that is over stays as it is."""
    with parts.database.read() as session:
        replay = replay_of(session, owner, replay_id)
        kept = kept_run(session, owner, replay.generation_id)
    parts.replayer.cancel(replay_id)
    return _see(request, owner, parts, kept, replay)


def replay_shown(parts: Parts, kept: Kept, replay: Replay | None) -> dict[str, Any]:
    """What the page of a receipt needs to show its replay."""
    run = parts.replayer.run_of(replay.id) if replay is not None else None
    return {
        "kept": kept,
        "replay": replay,
        "run": run,
        "gives_way": parts.replayer.gives_way,
        "verdict": verdict(kept, replay) if replay is not None and not replay.active else None,
    }


def _see(request: Request, owner: str, parts: Parts, kept: Kept, replay: Replay | None) -> Response:
    pages = pages_of(request)
    if not by_htmx(request) or replay is None:
        return pages.see(f"/messages/{kept.message.id}/receipt?generation={kept.generation.id}#replay")
    with parts.database.read() as session:
        replay = replay_of(session, owner, replay.id)
    return pages.partial("replays/_replay.html", **replay_shown(parts, kept, replay))
