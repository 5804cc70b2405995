"""Branches: choosing one at a fork, changing a question into a new one, deleting one and bringing it back."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from app.conversations.branches import delete_branch, restore_branch
from app.conversations.models import Message
from app.conversations.queries import add_revision, conversation_of, message_of
from app.conversations.tree import tree_of
from app.errors import AppError, Invalid
from app.generation.queries import queue, stop_all
from app.web.access import Owner
from app.web.failures import failure
from app.web.forms import PostedTurn
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.routes.conversations import new_submission
from app.web.transcripts import Shown, shown

router = APIRouter()


def _own_question(owner: Owner, parts: PartsOf, message_id: str) -> Message:
    with parts.database.read() as session:
        message = message_of(session, owner, message_id)
    if message.role != "user":
        raise Invalid("Only a question can be changed.")
    return message


OwnQuestion = Annotated[Message, Depends(_own_question)]


@router.post("/messages/{message_id}/choice")
def create_choice(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """Show this variant from now on, with the branch below it as it was left."""
    with parts.database.write() as session:
        message = message_of(session, owner, message_id)
        tree_of(session, message.conversation_id).choose(message)
    return _see(request, owner, parts, message)


@router.get("/messages/{message_id}/revision")
def show_revision(request: Request, question: OwnQuestion) -> Response:
    """The form that changes a question: within its bubble by htmx, else a page of its own."""
    return _revision(request, question, question.text)


@router.post("/messages/{message_id}/revision")
def create_revision(
    request: Request, owner: Owner, parts: PartsOf, question: OwnQuestion, form: PostedTurn
) -> Response:
    """The changed question with a new answer, beside the old one, which stays with everything below it."""
    try:
        form.check(parts.settings)
    except Invalid as error:
        return failure(request, error) if by_htmx(request) else _revision(request, question, form.text, error)
    with parts.database.write() as session:
        question = message_of(session, owner, question.id)
        turn = add_revision(session, question, form.text, form.submission)
        generation = queue(session, turn.answer) if turn.fresh else None
    parts.begin(generation, turn.conversation, shown=by_htmx(request))
    begun = turn.answer.id if turn.fresh else None
    return _see(request, owner, parts, turn.answer, "messages/_asked.html", begun=begun)


@router.post("/messages/{message_id}/deletion")
def create_deletion(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """Delete a message with everything below it. What is being answered there stops first."""
    with parts.database.write() as session:
        message = message_of(session, owner, message_id, deleted=True)
        stopping = stop_all(session, delete_branch(session, message))
        parent = tree_of(session, message.conversation_id).parent(message)
    for generation in stopping:
        parts.runner.cancel(generation.id)
    if not by_htmx(request):
        place = f"#message-{parent.id}" if parent else ""
        return pages_of(request).see(f"/conversations/{message.conversation_id}?deleted={message.id}{place}")
    with parts.database.read() as session:
        conversation = conversation_of(session, owner, message.conversation_id)
        page = shown(parts, session, conversation, through=parent.id if parent else None)
    return branch_shown(request, page, undo=message)


@router.post("/messages/{message_id}/restoration")
def create_restoration(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """Undo a deletion: the message is back with everything that was deleted with it."""
    with parts.database.write() as session:
        message = message_of(session, owner, message_id, deleted=True)
        restore_branch(session, message)
    return _see(request, owner, parts, message)


def branch_shown(request: Request, page: Shown, *more: str, undo: Message | None = None) -> Response:
    """All that is shown, in the place of what a page shows, and a way back where something was deleted."""
    pages = pages_of(request)
    response = pages.partial(
        "messages/_branch.html",
        *more,
        page=page,
        conversation=page.conversation,
        bubbles=page.bubbles,
        leaf=page.leaf,
        running=page.running,
        answering=page.answering,
        undo=undo,
        model=page.conversation.model or "",
    )
    response.headers["HX-Reswap"] = "none"
    # An address that names a message would show its branch again when loaded, and not what is chosen now.
    response.headers["HX-Replace-Url"] = pages.path(f"/conversations/{page.conversation.id}")
    return response


def _see(
    request: Request, owner: str, parts: Parts, message: Message, *more: str, begun: str | None = None
) -> Response:
    """The branch with a message, which is chosen by now."""
    if not by_htmx(request):
        return pages_of(request).see(f"/conversations/{message.conversation_id}#message-{message.id}")
    with parts.database.read() as session:
        conversation = conversation_of(session, owner, message.conversation_id)
        page = shown(parts, session, conversation, through=message.id, begun=begun)
    return branch_shown(request, page, *more)


def _revision(request: Request, question: Message, draft: str, error: AppError | None = None) -> Response:
    context: dict[str, Any] = {"message": question, "draft": draft, "submission": new_submission()}
    if by_htmx(request):
        return pages_of(request).partial("messages/_revision.html", error="", **context)
    status, words = (error.status, error.words) if error else (200, "")
    return pages_of(request).page(request, "messages/revision.html", status, error=words, **context)
