"""Imports, what became of each conversation in one, where brought-in conversations came from, ratings, shares."""

from datetime import datetime
from typing import Literal, TypedDict

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, Moment, new_id, now

Source = Literal["chatgpt", "claude", "openwebui", "librechat", "chatui", "rheo"]
ImportState = Literal["checking", "checked", "running", "finished", "interrupted"]
Result = Literal["imported", "updated", "skipped"]

SOURCE_NAMES: dict[Source, str] = {
    "chatgpt": "ChatGPT",
    "claude": "Claude",
    "openwebui": "Open WebUI",
    "librechat": "LibreChat",
    "chatui": "HF chat-ui",
    "rheo": "Rheo",
}


class UploadedFile(TypedDict):
    """One file of an import. `error` is what was wrong with it as a whole, in words for the person."""

    name: str
    bytes: int
    found: int
    error: str | None


class Origin(Base):
    """Where a brought-in conversation came from: its fingerprint, by which it is found when it comes again."""

    __tablename__ = "origins"
    __table_args__ = (Index(None, "owner", "source", "source_id", unique=True),)

    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    source: Mapped[Source] = mapped_column(String(16))
    source_id: Mapped[str] = mapped_column(String(255))
    title: Mapped[str] = mapped_column(Text)
    """As it came: while the conversation still has it, nobody here has given it another."""
    digest: Mapped[str] = mapped_column(String(64))
    """Of all that came; the same again has nothing new."""


class Import(Base):
    """One bringing-in of uploaded files: first perhaps checked, then run."""

    __tablename__ = "imports"
    __table_args__ = (
        CheckConstraint("state IN ('checking', 'checked', 'running', 'finished', 'interrupted')", name="state"),
        Index(None, "owner"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    owner: Mapped[str] = mapped_column(String(64))
    state: Mapped[ImportState] = mapped_column(String(16))
    files: Mapped[list[UploadedFile]] = mapped_column(JSON)
    read_bytes: Mapped[int] = mapped_column(default=0)
    imported: Mapped[int] = mapped_column(default=0)
    updated: Mapped[int] = mapped_column(default=0)
    skipped: Mapped[int] = mapped_column(default=0)
    messages: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    ended_at: Mapped[datetime | None] = mapped_column(Moment)

    @property
    def active(self) -> bool:
        """Whether it is being worked on, or waits for that."""
        return self.state in ("checking", "running")

    @property
    def dry(self) -> bool:
        """Whether it only tells what would come in."""
        return self.state in ("checking", "checked")

    @property
    def total_bytes(self) -> int:
        return sum(file["bytes"] for file in self.files)

    @property
    def found(self) -> int:
        """Conversations that were found in the files."""
        return self.imported + self.updated + self.skipped

    @property
    def errors(self) -> list[str]:
        """What was wrong with whole files, each with the file's name."""
        return [f"{file['name']}: {file['error']}" for file in self.files if file["error"]]


class Outcome(Base):
    """What became of one conversation in an import. `reason` says why it was skipped."""

    __tablename__ = "import_outcomes"
    __table_args__ = (
        CheckConstraint("result IN ('imported', 'updated', 'skipped')", name="result"),
        Index(None, "import_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    import_id: Mapped[str] = mapped_column(ForeignKey("imports.id", ondelete="CASCADE"))
    title: Mapped[str] = mapped_column(Text)
    source: Mapped[Source | None] = mapped_column(String(16))
    source_id: Mapped[str | None] = mapped_column(String(255))
    result: Mapped[Result] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(Text)
    messages: Mapped[int] = mapped_column(default=0)
    """How many came in."""
    conversation_id: Mapped[str | None] = mapped_column(String(32))
    """No foreign key: what came of an import stays true when the conversation is deleted."""


class Rating(Base):
    """What the reader thinks of an answer: good or not, and why."""

    __tablename__ = "ratings"

    message_id: Mapped[str] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True)
    good: Mapped[bool]
    note: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class SharedMessage(TypedDict):
    """One message as a share keeps it. `note` is how an answer ended, where that is not as it should."""

    role: Literal["user", "assistant"]
    who: str
    text: str
    note: str


class Share(Base):
    """What was shown of a conversation at one moment, for everyone who has its address.

    The token is kept as it is, and not hashed, because its owner is shown the link again; who can read this
    table can read the conversations.
    """

    __tablename__ = "shares"
    __table_args__ = (Index(None, "owner"), Index(None, "conversation_id"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    owner: Mapped[str] = mapped_column(String(64))
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    token: Mapped[str] = mapped_column(String(64), unique=True)
    title: Mapped[str] = mapped_column(Text)
    messages: Mapped[list[SharedMessage]] = mapped_column(JSON)
    bodies: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    """The messages as they are shown: made once, by the renderer of version `renderer`."""
    renderer: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
