"""Drafts into conversations: what is new is kept, what is there stays; the only writer of what comes in."""

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, insert, select
from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Message
from app.conversations.tags import add_tag
from app.database import new_id
from app.transfer.drafts import Draft, DraftMessage, Whole, whole
from app.transfer.models import Origin, Rating, Result

_ID = re.compile(r"[0-9a-f]{24}")
# Not by the ORM, which would send row by row.
_MESSAGES, _RATINGS = cast("Table", Message.__table__), cast("Table", Rating.__table__)
_AT_ONCE = 500
"""Values in one question: SQLite takes some thousands."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a draft. `messages` counts those that came in."""

    result: Result
    title: str
    reason: str | None = None
    messages: int = 0
    conversation_id: str | None = None


def store(session: Session, owner: str, draft: Draft, at: datetime) -> Kept:
    """Keep what a draft brings that is not there yet. Raises `Unreadable` where nothing is in it."""
    return _apply(session, owner, draft, at, dry=False)


def foresee(session: Session, owner: str, draft: Draft, at: datetime) -> Kept:
    """What `store` would do."""
    return _apply(session, owner, draft, at, dry=True)


def source_id_of(draft: Draft) -> str:
    """The id of a draft in its export; without one, a fingerprint of how it begins."""
    if draft.id:
        return draft.id
    first = draft.messages[0] if draft.messages else None
    told = "\0".join((draft.title, first.text if first else "", str(first.created_at if first else "")))
    return "sha256:" + hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _apply(session: Session, owner: str, draft: Draft, at: datetime, *, dry: bool) -> Kept:
    come = whole(draft, at)
    source_id = source_id_of(draft)
    origin = session.scalar(
        select(Origin).where(Origin.owner == owner, Origin.source == draft.source, Origin.source_id == source_id)
    )
    present = _present(session, owner, draft, origin)
    digest = draft.digest
    if present is None:
        made = None if dry else _make(session, owner, come, source_id, digest)
        return Kept("imported", come.title, messages=len(come.messages), conversation_id=made)
    if present.trashed_at is not None:
        return Kept("skipped", present.title, "it is in the trash: bring it back there, or delete it there first")
    if origin is not None and origin.digest == digest:
        return Kept("skipped", present.title, "it is here already, and nothing in it is new", 0, present.id)
    return _add(session, present, origin, come, digest, dry=dry)


def _present(session: Session, owner: str, draft: Draft, origin: Origin | None) -> Conversation | None:
    """The conversation that a draft was brought in as before; for our own exports also the one taken out."""
    if origin is not None:
        return session.get_one(Conversation, origin.conversation_id)
    if draft.source != "rheo" or not _ID.fullmatch(draft.id):
        return None
    return session.scalar(select(Conversation).where(Conversation.id == draft.id, Conversation.owner == owner))


def _make(session: Session, owner: str, come: Whole, source_id: str, digest: str) -> str:
    own = come.draft.source == "rheo"
    conversation_id = come.draft.id if own and _free(session, Conversation, [come.draft.id]) else new_id()
    made = Conversation(
        id=conversation_id,
        owner=owner,
        title=come.title,
        own_title=come.draft.own_title,
        model=come.draft.model,
        steering=come.draft.steering,
        created_at=come.created_at,
        updated_at=come.updated_at,
        pinned_at=come.draft.pinned_at,
        archived_at=come.draft.archived_at,
    )
    session.add(made)
    session.flush()
    for name in come.draft.tags:
        add_tag(session, owner, [made], name)
    session.add(
        Origin(
            conversation_id=conversation_id,
            owner=owner,
            source=come.draft.source,
            source_id=source_id,
            title=come.title,
            digest=digest,
        )
    )
    # Ids that are free come back, too: links lead on, and a copy that went to and fro is known again.
    keep = own and _free(session, Message, [message.id for message in come.messages])
    ids = {message.id: message.id if keep else new_id() for message in come.messages}
    _insert(session, conversation_id, _marks(owner, come, source_id), come.messages, ids)
    return conversation_id


def _add(
    session: Session, present: Conversation, origin: Origin | None, come: Whole, digest: str, *, dry: bool
) -> Kept:
    """What the draft has more than the conversation. What is there is not changed, but for an answer that grew."""
    marks = _marks(present.owner, come, origin.source_id if origin else present.id)
    rows = session.execute(select(Message.id, Message.submission).where(Message.conversation_id == present.id)).all()
    by_mark = {row.submission: row.id for row in rows if row.submission}
    here = {row.id for row in rows} if come.draft.source == "rheo" else set()
    ids: dict[str, str] = {}
    for message in come.messages:
        if (found := by_mark.get(marks[message.id]) or (message.id if message.id in here else None)) is not None:
            ids[message.id] = found
    missing = [message for message in come.messages if message.id not in ids]
    grown = _grown(session, [message for message in come.messages if message.id in ids], ids, dry=dry)
    is_named = origin is not None and present.title == origin.title and come.title != origin.title
    if not dry:
        ids |= {message.id: new_id() for message in missing}
        _insert(session, present.id, marks, missing, ids)
        if origin is not None:
            if is_named:
                present.title = origin.title = come.title
            origin.digest = digest
        if missing:
            present.updated_at = max(present.updated_at, come.updated_at)
    if missing or grown or is_named:
        return Kept("updated", come.title if is_named else present.title, None, len(missing), present.id)
    return Kept("skipped", present.title, "it is here already, and nothing in it is new", 0, present.id)


def _grown(session: Session, known: Sequence[DraftMessage], ids: dict[str, str], *, dry: bool) -> int:
    """Answers that were exported in their middle, and are longer now. Anything else that differs is ours to keep."""
    by_id = {ids[message.id]: message for message in known}
    count = 0
    for some in _in_parts(list(by_id)):
        for row in session.scalars(select(Message).where(Message.id.in_(some), Message.role == "assistant")):
            come = by_id[row.id]
            if not row.active and len(come.text) > len(row.text) and come.text.startswith(row.text):
                count += 1
                if not dry:
                    row.text, row.state, row.ending = come.text, come.state, come.ending
                    row.token_ids = row.html = row.renderer = row.thought_s = None  # they were of the shorter one
    return count


def _insert(
    session: Session,
    conversation_id: str,
    marks: dict[str, str],
    messages: Sequence[DraftMessage],
    ids: dict[str, str],
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": ids[message.id],
            "conversation_id": conversation_id,
            "parent_id": ids[message.parent] if message.parent is not None else None,
            "role": message.role,
            "text": message.text,
            "state": message.state,
            "ending": message.ending,
            "error": message.error,
            "model": message.model[:255] if message.model else None,
            "chosen": message.chosen,
            "submission": marks[message.id],
            "thought_s": message.thought_s,
            "created_at": message.created_at,
        }
        for message in messages
    ]
    if rows:
        session.execute(insert(_MESSAGES), rows)
    ratings = [
        {"message_id": ids[message.id], "good": message.rating[0], "note": message.rating[1]}
        for message in messages
        if message.rating is not None
    ]
    if ratings:
        session.execute(insert(_RATINGS), ratings)


def _marks(owner: str, come: Whole, source_id: str) -> dict[str, str]:
    """The fingerprint of each message: as with a question that is sent, the same again is found by it."""
    begin = "\0".join(("import", owner, come.draft.source, source_id))
    return {
        message.id: hashlib.sha256(f"{begin}\0{message.id}".encode("utf-8", "surrogatepass")).hexdigest()
        for message in come.messages
    }


def _free(session: Session, table: type[Conversation] | type[Message], ids: Sequence[str]) -> bool:
    """Whether all are ids as ours are, and nobody has one of them."""
    if not all(_ID.fullmatch(one) for one in ids):
        return False
    return all(session.scalar(select(table.id).where(table.id.in_(some)).limit(1)) is None for some in _in_parts(ids))


def _in_parts(ids: Sequence[str]) -> Iterator[Collection[str]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
