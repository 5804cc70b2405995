"""Messages: one more turn in a conversation, one more answer to a question."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from app.conversations.models import Conversation, Message
from app.conversations.queries import add_answer, add_turn, continue_answer, conversation_of, message_of
from app.errors import Invalid, Stale
from app.generation.queries import queue
from app.rendering.thinking import without_thinking
from app.web.access import Owner
from app.web.failures import failure
from app.web.forms import PostedTurn, TurnForm
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.routes.conversations import conversation_page, new_submission
from app.web.transcripts import bubbles, shown

router = APIRouter()


@router.post("/conversations/{conversation_id}/messages")
def create_message(
    request: Request, owner: Owner, parts: PartsOf, conversation_id: str, form: PostedTurn
) -> Response:
    try:
        form.check(parts.settings)
    except Invalid as error:
        if by_htmx(request):
            return failure(request, error)
        return conversation_page(request, owner, parts, conversation_id, draft=form.text, error=error)
    try:
        with parts.database.write() as session:
            conversation = conversation_of(session, owner, conversation_id)
            turn = add_turn(session, conversation, form.text, form.submission, form.leaf)
            generation = queue(session, turn.answer) if turn.fresh else None
    except Stale as error:
        return _caught_up(request, owner, parts, conversation_id, form=form, error=error)
    if generation is not None:
        parts.start(generation, conversation)
    if not by_htmx(request):
        return pages_of(request).see(f"/conversations/{conversation_id}#message-{turn.answer.id}")
    with parts.database.read() as session:
        page = shown(parts, session, conversation_of(session, owner, conversation_id))
    return pages_of(request).partial(
        "messages/_sent.html",
        conversation=page.conversation,
        bubbles=page.after(form.leaf, {turn.question.id, turn.answer.id}),
        running=page.running,
        submission=new_submission(),
        leaf=page.leaf,
    )


@router.get("/messages/{message_id}.md")
def show_source(owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """The Markdown of a message, as it was written; of an answer without its thinking."""
    with parts.database.read() as session:
        message = message_of(session, owner, message_id)
    text = message.text if message.role == "user" else without_thinking(message.text)
    return PlainTextResponse(text, media_type="text/markdown", headers={"Cache-Control": "no-store"})


@router.post("/messages/{message_id}/answers")
def create_answer(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """Another answer beside those that a question has; the newest is shown."""
    with parts.database.write() as session:
        question = message_of(session, owner, message_id)
        answer = add_answer(session, question)
        generation = queue(session, answer)
        conversation = conversation_of(session, owner, question.conversation_id)
    parts.start(generation, conversation)
    return _answer_begun(request, parts, conversation, answer.id)


@router.post("/messages/{message_id}/continuation")
def create_continuation(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """The same answer goes on, in its place."""
    with parts.database.write() as session:
        answer = message_of(session, owner, message_id)
        continue_answer(session, answer)
        generation = queue(session, answer)
        conversation = conversation_of(session, owner, answer.conversation_id)
    parts.start(generation, conversation)
    return _answer_begun(request, parts, conversation, answer.id)


def _caught_up(
    request: Request, owner: str, parts: Parts, conversation_id: str, *, form: TurnForm, error: Stale
) -> Response:
    """What a page that was behind had not seen, and why its message was not sent."""
    if not by_htmx(request):
        return conversation_page(request, owner, parts, conversation_id, draft=form.text, error=error)
    with parts.database.read() as session:
        page = shown(parts, session, conversation_of(session, owner, conversation_id))
    response = pages_of(request).partial(
        "messages/_stale.html",
        status=error.status,
        page=page,
        bubbles=page.bubbles,
        leaf=page.leaf,
        running=page.running,
        words=error.words,
    )
    response.headers["HX-Reswap"] = "none"
    return response


def _answer_begun(request: Request, parts: Parts, conversation: Conversation, answer_id: str) -> Response:
    if not by_htmx(request):
        return pages_of(request).see(f"/conversations/{conversation.id}#message-{answer_id}")
    with parts.database.read() as session:
        page = shown(parts, session, conversation)
        # Not the page's last: a tab that is older than a newer turn may ask, too.
        (bubble,) = bubbles(parts, session, [session.get_one(Message, answer_id)])
    return pages_of(request).partial(
        "messages/_begun.html", bubble=bubble, running=page.running, conversation=page.conversation, leaf=page.leaf
    )
