"""Reruns: a whole conversation asked again of another model, and both side by side."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.conversations.models import Message
from app.conversations.queries import conversation_of
from app.errors import Invalid
from app.generation.queries import latest_of
from app.generation.reruns import Beside, begin, beside, branch_meant, reruns_of
from app.rendering.differences import LARGEST, Difference, differences
from app.web.access import Owner
from app.web.forms import Fields
from app.web.model_forms import ChosenModel, check_model
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Row:
    """One question with both answers; `text` is the new one as it differs from the old one."""

    question: Message
    old: Message | None
    new: Message | None
    text: list[Difference]


@router.get("/conversations/{conversation_id}/reruns")
def show_reruns(request: Request, owner: Owner, parts: PartsOf, conversation_id: str, message: str = "") -> Response:
    """Choose another model; and what was run before."""
    with parts.database.read() as session:
        conversation = conversation_of(session, owner, conversation_id)
        path = branch_meant(session, conversation, message or None)
        earlier = reruns_of(session, owner, conversation.id)
    answered = [row.model for row in path if row.role == "assistant" and row.model]
    return pages_of(request).page(
        request,
        "reruns/new.html",
        conversation=conversation,
        message=message,
        questions=sum(row.role == "user" for row in path),
        states=parts.catalog.models(),
        answered=answered[-1] if answered else "",
        earlier=earlier,
    )


@router.post("/conversations/{conversation_id}/reruns")
def create_rerun(
    request: Request, *, owner: Owner, parts: PartsOf, conversation_id: str, fields: Fields, model: ChosenModel
) -> Response:
    """Begin: a new conversation, its first question asked."""
    if model is None:
        raise Invalid("Choose a model first.")
    check_model(parts, model)
    with parts.database.write() as session:
        rerun, generation = begin(session, owner, conversation_id, fields.get("message") or None, model)
        conversation = conversation_of(session, owner, rerun.conversation_id)
    parts.start(generation, conversation)
    # Where there was no room for it, it is over already.
    parts.rerunner.ended(generation.id)
    return pages_of(request).see(f"/reruns/{conversation.id}")


@router.get("/reruns/{conversation_id}")
def show_rerun(request: Request, owner: Owner, parts: PartsOf, conversation_id: str) -> Response:
    """Both conversations side by side; while it runs, the page asks again and again."""
    with parts.database.read() as session:
        found = beside(session, owner, conversation_id)
        rows = _rows(found, _running(parts, session, found))
    context: dict[str, Any] = {
        "rerun": found.rerun,
        "source": found.source,
        "conversation": found.conversation,
        "rows": rows,
        "active": found.rerun.state == "running",
    }
    pages = pages_of(request)
    if by_htmx(request):
        return pages.partial("reruns/_rows.html", **context)
    return pages.page(request, "reruns/show.html", **context)


def _rows(found: Beside, running: dict[str, str]) -> list[Row]:
    largest = LARGEST // max(1, len(found.pairs))
    rows: list[Row] = []
    for pair in found.pairs:
        said = "" if pair.new is None else pair.new.text + running.get(pair.new.id, "")
        if pair.new is None or pair.new.active or pair.old is None:
            # Words that are still coming would all count as missing.
            text = [Difference("same", said)] if said else []
        else:
            text = differences(pair.old.text, said, largest)
        rows.append(Row(pair.question, pair.old, pair.new, text))
    return rows


def _running(parts: Parts, session: Session, found: Beside) -> dict[str, str]:
    """What running answers have said that is not in their row yet."""
    active = [pair.new for pair in found.pairs if pair.new is not None and pair.new.active]
    runs = latest_of(session, active)
    return {answer: parts.events.snapshot(run.id, run.covered).text for answer, run in runs.items()}
