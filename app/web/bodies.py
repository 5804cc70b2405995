"""What stands in the body of a message: the HTML of answers is made once and kept; questions are shown as typed."""

import logging
from collections.abc import Iterable

from markupsafe import Markup, escape
from sqlalchemy import update

from app.conversations.models import ACTIVE, Message
from app.database import Database
from app.errors import AppError
from app.rendering.answer import render_answer
from app.rendering.markdown import RENDERER_VERSION

log = logging.getLogger(__name__)


def bodies(database: Database, messages: Iterable[Message]) -> dict[str, Markup]:
    """The bodies of messages that have ended, by message id. What had to be rendered is kept for the next time."""
    made: list[tuple[Message, Markup]] = []
    found = {message.id: _kept_or_made(message, made) for message in messages}
    if made:
        _keep(database, made)
    return found


def body(message: Message) -> Markup:
    """The body of one message that has ended; nothing is kept."""
    return _kept_or_made(message, [])


def source(message_id: str, text: str) -> Markup:
    """The text as the model wrote it: for what can't be rendered."""
    return Markup(  # noqa: S704  (all of the text is escaped)
        '<p class="message-note">This answer can’t be shown as formatted text. This is its source:</p>'
        f'<pre id="source-{message_id}" class="source" tabindex="0">{escape(text)}</pre>'
    )


def _kept_or_made(message: Message, made: list[tuple[Message, Markup]]) -> Markup:
    if message.role == "user":
        return escape(message.text)
    if message.html is not None and message.renderer == RENDERER_VERSION:
        return Markup(message.html)  # noqa: S704  (our renderer made it)
    try:
        html = render_answer(message.text, message.id, thought_s=message.thought_s or ())
    except Exception:
        # One broken message is one broken bubble, never a broken page.
        log.exception("The message %s can't be rendered", message.id)
        return source(message.id, message.text)
    made.append((message, html))
    return html


def _keep(database: Database, made: Iterable[tuple[Message, Markup]]) -> None:
    try:
        with database.write() as session:
            for message, html in made:
                # One that has been continued meanwhile says more than this.
                same = (Message.id == message.id, Message.text == message.text, Message.state.not_in(ACTIVE))
                session.execute(update(Message).where(*same).values(html=str(html), renderer=RENDERER_VERSION))
    except AppError as error:
        # A full disk costs time, not the page.
        log.warning("Rendered answers could not be kept: %s", error.words)
