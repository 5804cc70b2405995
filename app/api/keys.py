"""Keys of programs: made, listed and revoked by the command, shown once, kept as hashes."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import String, select
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, Database, Moment, new_id, now
from app.errors import Invalid, NotFound

PREFIX = "rheo-"
"""Says whose secret it is to those who find one where it should not be."""
LONGEST_NAME = 60


class Key(Base):
    """A key that a program may come in with. A revoked one stays, so that its end does not open the door."""

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    revoked_at: Mapped[datetime | None] = mapped_column(Moment)


class Keys:
    """The keys of one database. Asked anew each time: the command works beside a server that runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def make(self, name: str) -> str:
        """A new key; nobody can tell it again. Raises `Invalid` for a name that can't be used."""
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
            raise Invalid(f"A key needs a name of 1 to {LONGEST_NAME} characters, on one line.")
        secret = PREFIX + secrets.token_urlsafe(32)
        with self._database.write() as session:
            if session.scalar(select(Key).where(Key.name == name)) is not None:
                raise Invalid(f"There is a key with the name {name}; names are not used twice.")
            session.add(Key(name=name, secret_hash=_hash(secret)))
        return secret

    def list(self) -> Sequence[Key]:
        """All that were ever made, the oldest first."""
        with self._database.read() as session:
            return session.scalars(select(Key).order_by(Key.id)).all()

    def revoke(self, name: str) -> None:
        """Make a key worthless from now on. Raises `NotFound`."""
        with self._database.write() as session:
            key = session.scalar(select(Key).where(Key.name == name, Key.revoked_at.is_(None)))
            if key is None:
                raise NotFound(f"There is no key with the name {name}.")
            key.revoked_at = now()

    def exist(self) -> bool:
        """Whether any was ever made."""
        with self._database.read() as session:
            return session.scalar(select(Key.id).limit(1)) is not None

    def holder(self, secret: str) -> str | None:
        """The name of the key with this secret; None where there is none, or not any more."""
        with self._database.read() as session:
            found = select(Key.name).where(Key.secret_hash == _hash(secret), Key.revoked_at.is_(None))
            return session.scalar(found)


def _hash(secret: str) -> str:
    # They are long and random: a slow hash would protect nothing more.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
