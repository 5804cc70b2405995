"""What an answer has said so far, piece by piece, each with the number of its event."""

from dataclasses import dataclass, field

from app.conversations.models import Message
from app.engines.protocol import UNKNOWN, Part
from app.events.protocol import Event
from app.rendering.answer import thought_seconds
from app.rendering.thinking import may_think


@dataclass(slots=True)
class Said:
    """The pieces of one generation. Those of before a restart are among them."""

    pieces: list[Event] = field(default_factory=list)
    one_model: bool = True
    """Whether all of it, and what the message said before, comes from one model: only then do its ids count."""
    rest: str = ""
    """What of a token still belongs to the text, where a stop string begins within that token."""
    back: int = 0
    """How many characters at the end do not belong to the text: a stop string began in them."""

    @property
    def last(self) -> int:
        """The number of the last piece; 0 before the first."""
        return self.pieces[-1].number if self.pieces else 0

    @property
    def tokens(self) -> int:
        """How many tokens this generation has made."""
        return sum(len(piece.token_ids) for piece in self.pieces)

    @property
    def token_ids(self) -> list[int]:
        """The ids of these tokens."""
        return [token_id for piece in self.pieces for token_id in piece.token_ids]

    def cut(self, seen: int | None) -> None:
        """Keep only what a reader had seen; all for None."""
        if seen is not None:
            self.pieces = [piece for piece in self.pieces if piece.number <= seen]

    def add_to(self, message: Message) -> None:
        """Put the text, the ids it came from, and how long it thought, at the end of a message."""
        message.token_ids = self._ids_with(message)
        message.thought_s = self._thought_s_with(message)
        text = message.text + self._text()
        message.text = text[: len(text) - self.back] + self.rest
        message.html = None

    def part(self, message: Message) -> Part | None:
        """The answer so far as the end of a prompt, for the model to go on from; None where nothing was said."""
        text = message.text + self._text()
        ids = self._ids_with(message)
        return Part("assistant", text, tuple(ids) if ids is not None else None) if text else None

    def _thought_s_with(self, message: Message) -> list[float | None] | None:
        if not may_think(message.text + self._text()):
            return None
        before = [(message.text, self.pieces[0].at)] if self.pieces and message.text else []
        took = thought_seconds([*before, *((piece.text, piece.at) for piece in self.pieces)])
        # What was thought before this run came all at once here; its time is known already.
        known = dict(enumerate(message.thought_s or ()))
        return [new if known.get(index) is None else known[index] for index, new in enumerate(took)]

    def _text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def _ids_with(self, message: Message) -> list[int] | None:
        if not self.one_model or (message.text and message.token_ids is None):
            return None
        if self.rest or self.back:
            return None  # ids only count where they are exactly what the text came from
        ids = [*(message.token_ids or ()), *self.token_ids]
        return None if UNKNOWN in ids else ids
