"""Tags: words of an owner by which conversations are found again. A tag is there while a conversation has it."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Tag, Tagging
from app.conversations.titles import is_blank
from app.errors import Invalid
from app.texts import clean

LONGEST_TAG = 40
MOST_TAGS = 20
"""On one conversation."""


def tag_name(text: str) -> str:
    """A tag as it was written, in one line and without the sign before it. Raises `Invalid`."""
    name = " ".join(clean(text).split()).lstrip("#").strip()
    if is_blank(name) or not key_of(name):
        raise Invalid("A tag needs at least one character.")
    if len(name) > LONGEST_TAG:
        raise Invalid(f"This tag is {len(name)} characters long; at most {LONGEST_TAG} can be kept.")
    return name


def key_of(name: str) -> str:
    """A tag without the differences that a person does not mean: those of case and of width."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()[:64]


def tags_of(session: Session, owner: str) -> Sequence[Tag]:
    """The owner's tags, in the order of their names. What only has conversations in the trash is not among them."""
    used = (
        select(Tagging.tag_id)
        .join(Conversation, Conversation.id == Tagging.conversation_id)
        .where(Tagging.tag_id == Tag.id, Conversation.trashed_at.is_(None))
    )
    return session.scalars(select(Tag).where(Tag.owner == owner, exists(used)).order_by(Tag.key)).all()


def tag_of(session: Session, owner: str, name: str) -> Tag | None:
    """The owner's tag of this name, however it is written; None where there is none."""
    return session.scalar(select(Tag).where(Tag.owner == owner, Tag.key == key_of(name)))


def tags_on(session: Session, conversations: Iterable[Conversation]) -> Mapping[str, Sequence[Tag]]:
    """The tags of each of these conversations, by its id."""
    found: dict[str, list[Tag]] = {conversation.id: [] for conversation in conversations}
    rows = session.execute(
        select(Tagging.conversation_id, Tag)
        .join(Tag, Tag.id == Tagging.tag_id)
        .where(Tagging.conversation_id.in_(found))
        .order_by(Tag.key)
    )
    for conversation_id, tag in rows:
        found[conversation_id].append(tag)
    return found


def add_tag(session: Session, owner: str, conversations: Sequence[Conversation], name: str) -> Tag:
    """Give these conversations of an owner a tag. Raises `Invalid` where one has as many as it can."""
    present = tags_on(session, conversations)
    tag = tag_of(session, owner, name)
    if tag is None:
        tag = Tag(owner=owner, name=name, key=key_of(name))
        session.add(tag)
        session.flush()
    for conversation in conversations:
        has = {other.id for other in present[conversation.id]}
        if tag.id in has:
            continue
        if len(has) >= MOST_TAGS:
            raise Invalid(f"“{conversation.title}” has {MOST_TAGS} tags already; more can't be kept.")
        session.add(Tagging(conversation_id=conversation.id, tag_id=tag.id))
    session.flush()
    return tag


def remove_tag(session: Session, owner: str, conversations: Sequence[Conversation], name: str) -> None:
    """Take a tag from these conversations; one that none has any more is gone."""
    tag = tag_of(session, owner, name)
    if tag is None:
        return
    ids = [conversation.id for conversation in conversations]
    session.execute(delete(Tagging).where(Tagging.tag_id == tag.id, Tagging.conversation_id.in_(ids)))
    forget_unused_tags(session)


def forget_unused_tags(session: Session) -> None:
    """Remove the tags that no conversation has, also none in the trash."""
    session.execute(delete(Tag).where(~exists().where(Tagging.tag_id == Tag.id)))
