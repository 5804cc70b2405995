"""Messages: one more turn in a conversation, one more answer to a question."""

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from app.conversations.models import Conversation, Message
from app.conversations.queries import add_answer, add_turn, continue_answer, conversation_of, message_of
from app.errors import Invalid, Stale
from app.generation.queries import queue, queue_again
from app.rendering.thinking import without_thinking
from app.web.access import Owner
from app.web.contexts import check_fits
from app.web.failures import failure
from app.web.forms import Fields, PostedTurn, TurnForm
from app.web.model_forms import ChosenModel, check_model
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.routes.branches import branch_shown
from app.web.routes.conversations import conversation_page, new_submission
from app.web.transcripts import shown

router = APIRouter()


@router.post("/conversations/{conversation_id}/messages")
def create_message(
    request: Request, *, owner: Owner, parts: PartsOf, conversation_id: str, form: PostedTurn, model: ChosenModel
) -> Response:
    try:
        form.check(parts.settings)
        check_model(parts, model)
        check_fits(parts, owner, conversation_id, form.text, form.leaf, model=model)
    except Invalid as error:
        if by_htmx(request):
            return failure(request, error)
        return conversation_page(request, owner, parts, conversation_id, draft=form.text, error=error)
    try:
        with parts.database.write() as session:
            conversation = conversation_of(session, owner, conversation_id)
            turn = add_turn(session, conversation, form.text, form.submission, form.leaf)
            if turn.fresh and model is not None:
                conversation.model = model
            generation = queue(session, turn.answer) if turn.fresh else None
    except Stale as error:
        return _caught_up(request, owner, parts, conversation_id, form=form, error=error)
    parts.begin(generation, conversation, shown=by_htmx(request))
    if not by_htmx(request):
        return pages_of(request).see(f"/conversations/{conversation_id}#message-{turn.answer.id}")
    with parts.database.read() as session:
        conversation = conversation_of(session, owner, conversation_id)
        begun = turn.answer.id if turn.fresh else None
        page = shown(parts, session, conversation, through=turn.answer.id, begun=begun)
    return pages_of(request).partial(
        "messages/_sent.html",
        conversation=page.conversation,
        bubbles=page.after(form.leaf, {turn.question.id, turn.answer.id}),
        running=page.running,
        submission=new_submission(),
        leaf=page.leaf,
        model=page.conversation.model or "",
    )


@router.get("/messages/{message_id}.md")
def show_source(owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """The Markdown of a message, as it was written; of an answer without its thinking."""
    with parts.database.read() as session:
        message = message_of(session, owner, message_id)
    text = message.text if message.role == "user" else without_thinking(message.text)
    return PlainTextResponse(text, media_type="text/markdown", headers={"Cache-Control": "no-store"})


@router.post("/messages/{message_id}/answers")
def create_answer(request: Request, owner: Owner, parts: PartsOf, message_id: str, fields: Fields) -> Response:
    """Another answer beside those that a question has; the newest is shown."""
    with parts.database.write() as session:
        question = message_of(session, owner, message_id)
        answer = add_answer(session, question)
        generation = queue(session, answer)
        conversation = conversation_of(session, owner, question.conversation_id)
    parts.begin(generation, conversation, shown=by_htmx(request))
    return _answer_begun(request, parts, conversation, answer, fields.get("leaf"))


@router.post("/messages/{message_id}/continuation")
def create_continuation(request: Request, owner: Owner, parts: PartsOf, message_id: str) -> Response:
    """The same answer goes on, in its place."""
    with parts.database.write() as session:
        answer = message_of(session, owner, message_id)
        continue_answer(session, answer)
        generation = queue_again(session, answer)
        conversation = conversation_of(session, owner, answer.conversation_id)
    parts.begin(generation, conversation, shown=by_htmx(request))
    return _answer_begun(request, parts, conversation, answer)


def _caught_up(
    request: Request, owner: str, parts: Parts, conversation_id: str, *, form: TurnForm, error: Stale
) -> Response:
    """What a page that was behind had not seen of its branch, and why its message was not sent."""
    if not by_htmx(request):
        return conversation_page(
            request, owner, parts, conversation_id, draft=form.text, error=error, through=form.leaf
        )
    with parts.database.read() as session:
        page = shown(parts, session, conversation_of(session, owner, conversation_id), through=form.leaf)
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


def _answer_begun(
    request: Request, parts: Parts, conversation: Conversation, answer: Message, leaf: str | None = None
) -> Response:
    """The answer in the place of the one on the page; all that is shown where other messages were below that."""
    if not by_htmx(request):
        return pages_of(request).see(f"/conversations/{conversation.id}#message-{answer.id}")
    with parts.database.read() as session:
        page = shown(parts, session, conversation, through=answer.id, begun=answer.id)
    bubble = next((bubble for bubble in page.bubbles if bubble.message.id == answer.id), None)
    beside = {answer.parent_id, *(bubble.variants.ids if bubble and bubble.variants else ())}
    if bubble is None or (leaf is not None and leaf not in beside):
        return branch_shown(request, page, "messages/_asked.html")
    return pages_of(request).partial(
        "messages/_begun.html",
        bubble=bubble,
        running=page.running,
        conversation=page.conversation,
        leaf=page.leaf,
        model=page.conversation.model or "",
    )
