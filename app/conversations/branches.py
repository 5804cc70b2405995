"""Branches: a message with everything below it, deleted and brought back together."""

from sqlalchemy.orm import Session

from app.conversations.models import Message
from app.conversations.tree import tree_of
from app.database import now
from app.errors import Invalid


def delete_branch(session: Session, message: Message) -> list[Message]:
    """Delete a message with everything below it; what of it was there until now.

    Nothing is taken off the disk, so that it can be brought back. What is deleted already stays as it is.
    """
    if message.deleted_at is not None:
        return []
    tree = tree_of(session, message.conversation_id)
    if (parent := tree.parent(message)) is not None:
        tree.choose(parent)  # what is left of the branch that the person sees
    gone = [below for below in tree.branch(message) if below.deleted_at is None]
    moment = now()
    for below in gone:
        below.deleted_at = moment
    return gone


def restore_branch(session: Session, message: Message) -> None:
    """Bring back what was deleted together with a message, and show it.

    Raises `Invalid` where what it follows is deleted, too: it would stand nowhere.
    """
    tree = tree_of(session, message.conversation_id)
    moment = message.deleted_at
    if moment is not None:
        parent = tree.parent(message)
        if parent is not None and parent.id not in tree:
            raise Invalid("What this followed has been deleted, too: bring that back first.")
        for below in tree.branch(message):
            if below.deleted_at == moment:
                below.deleted_at = None
    tree.choose(message)
