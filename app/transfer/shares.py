"""Shares: what is shown of a conversation, kept as it is now, at an address that nobody can guess."""

import secrets
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, defer

from app.conversations.models import Conversation, Message
from app.conversations.queries import conversation_of
from app.conversations.tree import tree_of
from app.errors import Invalid, NotFound, Stale
from app.transfer.contents import note_on, said_by, spoken
from app.transfer.models import Share, SharedMessage

TOKEN_BYTES = 32
"""Of chance: a guesser who tries a billion a second for the age of the universe finds nothing."""


def shareable(session: Session, conversation: Conversation, leaf: str = "") -> list[Message]:
    """The messages that a share made now would hold: what is shown, without answers that are still to come.

    `leaf` is the last message that the person sees; empty: the end of what is chosen. Raises `Stale` where that
    message has been deleted: something else than what is seen would be shared.
    """
    tree = tree_of(session, conversation.id)
    if leaf and leaf not in tree:
        raise Stale("What you see has been deleted in another place. Load the page again, and share then.")
    path = tree.path(leaf or None)
    places = [message.id for message in path]
    seen = path[: places.index(leaf) + 1] if leaf else path
    return [message for message in seen if not message.active]


def share(session: Session, owner: str, conversation_id: str, leaf: str = "") -> Share:
    """Share what is shown of a conversation. Raises `Invalid` where there is nothing yet."""
    conversation = conversation_of(session, owner, conversation_id)
    messages = shareable(session, conversation, leaf)
    if not messages:
        raise Invalid("There is nothing in this conversation yet that could be shared.")
    made = Share(
        owner=owner,
        conversation_id=conversation.id,
        token=secrets.token_urlsafe(TOKEN_BYTES),
        title=conversation.title,
        messages=[_shared(message) for message in messages],
    )
    session.add(made)
    session.flush()
    return made


def shares_of(session: Session, owner: str, conversation_id: str | None = None) -> Sequence[Share]:
    """The owner's shares, or those of one conversation, the newest first; without what they hold."""
    question = (
        select(Share)
        .join(Conversation, Conversation.id == Share.conversation_id)
        .where(Share.owner == owner, Conversation.trashed_at.is_(None))
        .options(defer(Share.messages), defer(Share.bodies))
    )
    if conversation_id is not None:
        question = question.where(Share.conversation_id == conversation_id)
    return session.scalars(question.order_by(Share.id.desc())).all()


def revoke(session: Session, owner: str, share_id: str) -> Share:
    """Take a share back: its address leads nowhere from now on. Raises `NotFound`."""
    found = session.scalar(select(Share).where(Share.id == share_id, Share.owner == owner))
    if found is None:
        raise NotFound("There is no such link. It may have been revoked already.")
    session.delete(found)
    return found


def shared_at(session: Session, token: str) -> Share | None:
    """The share of an address, whoever asks; None where there is none, never was or is no more.

    While its conversation is in the trash its address leads nowhere, too.
    """
    return session.scalar(
        select(Share)
        .join(Conversation, Conversation.id == Share.conversation_id)
        .where(Share.token == token, Conversation.trashed_at.is_(None))
    )


def _shared(message: Message) -> SharedMessage:
    # Thinking was not meant for readers, and words of an error may tell of the machine: neither goes out.
    return {
        "role": message.role,
        "who": "" if message.role == "user" else said_by(message),
        "text": spoken(message),
        "note": note_on(message),
    }
