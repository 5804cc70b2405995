"""Conversations as they are taken out: each read by itself, so that all of them are never in memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from app.conversations.models import Conversation, Message
from app.conversations.queries import conversation_of
from app.conversations.tags import tags_on
from app.conversations.tree import Tree, tree_of
from app.database import Database
from app.errors import NotFound
from app.rendering.thinking import without_thinking
from app.transfer.models import Rating
from app.transfer.queries import ratings_in

_PAGE = 200

SoFar = Callable[[Session, Message], str]
"""All that an answer has said by now, while it is being answered."""


@dataclass(frozen=True, slots=True)
class Content:
    """One conversation with everything in it. `path` is what is shown, `messages` the whole tree, level by level."""

    conversation: Conversation
    messages: Sequence[Message]
    path: Sequence[Message]
    ratings: dict[str, Rating]
    tags: Sequence[str]


def content_of(session: Session, conversation: Conversation, so_far: SoFar) -> Content:
    """Read one conversation."""
    tree = tree_of(session, conversation.id)
    messages = _by_level(tree)
    for message in messages:
        if message.active:
            # Shown, not kept: that is the business of who records it.
            set_committed_value(message, "text", so_far(session, message))
    tags = [tag.name for tag in tags_on(session, [conversation])[conversation.id]]
    return Content(conversation, messages, tree.path(), ratings_in(session, conversation), tags)


def contents(database: Database, owner: str, so_far: SoFar, chosen: Sequence[str] | None = None) -> Iterator[Content]:
    """All conversations of the owner, or the chosen ones, the oldest first.

    No transaction is open between two of them: whoever downloads slowly holds nobody up.
    """
    after = ""
    while True:
        with database.read() as session:
            question = select(Conversation.id).where(
                Conversation.owner == owner, Conversation.trashed_at.is_(None), Conversation.id > after
            )
            if chosen is not None:
                question = question.where(Conversation.id.in_(chosen))
            ids = session.scalars(question.order_by(Conversation.id).limit(_PAGE)).all()
        for conversation_id in ids:
            try:
                with database.read() as session:
                    content = content_of(session, conversation_of(session, owner, conversation_id), so_far)
            except NotFound:
                continue  # deleted meanwhile
            yield content
        if len(ids) < _PAGE:
            return
        after = ids[-1]


def spoken(message: Message) -> str:
    """What a message says to a reader: an answer without its thinking."""
    return without_thinking(message.text) if message.role == "assistant" else message.text


def said_by(message: Message) -> str:
    """Who said it, in words for the reader."""
    return "You" if message.role == "user" else message.model or "Answer"


def note_on(message: Message) -> str:
    """How an answer ended, where that is not as it should."""
    if message.active:
        return "still being answered"
    if message.state == "finished":
        return "cut at its longest length" if message.ending == "length" else ""
    return message.state


def at(message: Message) -> str:
    """When, in a zone that is said."""
    return f"{message.created_at:%Y-%m-%d %H:%M} UTC"


def _by_level(tree: Tree) -> list[Message]:
    """From the roots down, siblings the oldest first: the same however the messages came to be there."""
    ordered: list[Message] = []
    level = tree.children(None)
    while level:
        ordered += level
        level = [child for row in level for child in tree.children(row.id)]
    return ordered
