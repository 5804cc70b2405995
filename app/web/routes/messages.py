"""Messages: one more turn in a conversation, one more answer to a question."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.conversations.queries import add_answer, add_turn, conversation_of, message_of
from app.errors import Invalid
from app.generation.queries import queue
from app.web.access import Owner
from app.web.failures import failure
from app.web.forms import PostedTurn
from app.web.pages import by_htmx, pages_of
from app.web.parts import PartsOf
from app.web.routes.conversations import conversation_page, new_submission
from app.web.transcripts import shown

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
    with parts.database.write() as session:
        conversation = conversation_of(session, owner, conversation_id)
        turn = add_turn(session, conversation, form.text, form.submission)
        generation = queue(session, turn.answer) if turn.fresh else None
    if generation is not None:
        parts.start(generation, conversation_id)
    if not by_htmx(request):
        return pages_of(request).see(f"/conversations/{conversation_id}#message-{turn.answer.id}")
    with parts.database.read() as session:
        page = shown(session, parts.events, conversation_of(session, owner, conversation_id))
    made = {turn.question.id, turn.answer.id}
    return pages_of(request).partial(
        "messages/_sent.html",
        conversation=page.conversation,
        bubbles=[bubble for bubble in page.bubbles if bubble.message.id in made],
        running=page.running,
        submission=new_submission(),
    )


@router.post("/messages/{message_id}/answers")
def create_answer(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """Another answer beside those that a question has; the newest is shown."""
    with parts.database.write() as session:
        question = message_of(session, owner, message_id)
        answer = add_answer(session, question)
        generation = queue(session, answer)
    parts.start(generation, question.conversation_id)
    if not by_htmx(request):
        return pages_of(request).see(f"/conversations/{question.conversation_id}#message-{answer.id}")
    with parts.database.read() as session:
        page = shown(session, parts.events, conversation_of(session, owner, question.conversation_id))
    return pages_of(request).partial(
        "messages/_retried.html", bubble=page.bubbles[-1], running=page.running, conversation=page.conversation
    )
