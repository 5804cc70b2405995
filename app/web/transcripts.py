"""What a conversation's page shows, read in one go: its messages with their generations."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Message
from app.conversations.queries import transcript
from app.events.protocol import EventLog
from app.generation.models import Generation
from app.generation.queries import latest_of


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message as it is shown. `after` is the event number that `text` covers, for a running answer."""

    message: Message
    generation: Generation | None
    text: str
    after: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """A conversation as it is shown."""

    conversation: Conversation
    bubbles: list[Bubble]

    @property
    def leaf(self) -> str:
        """The id of the last message that is shown: what a page that sends a turn has seen. Empty at first."""
        return self.bubbles[-1].message.id if self.bubbles else ""

    @property
    def running(self) -> Generation | None:
        """The generation that Stop would stop: the first that has not ended."""
        return next((b.generation for b in self.bubbles if b.message.active and b.generation), None)

    @property
    def cut(self) -> str:
        """The id of the first message that the newest answer was made with, where older ones did not go in."""
        begun = [b.generation for b in self.bubbles if b.generation and b.generation.started_at]
        return self.bubbles[begun[-1].left_out].message.id if begun and begun[-1].left_out else ""

    def after(self, leaf: str | None, made: set[str]) -> list[Bubble]:
        """What a page that shows the messages up to `leaf` lacks; where that is not told, what was just made.

        A sending whose answer was lost on the line is sent again, and by then its page may show its turn.
        """
        places = [bubble.message.id for bubble in self.bubbles]
        if leaf in places:
            return self.bubbles[places.index(leaf) + 1 :]
        return [bubble for bubble in self.bubbles if bubble.message.id in made]


def shown(session: Session, events: EventLog, conversation: Conversation) -> Shown:
    """A conversation with everything its page needs."""
    messages = transcript(session, conversation)
    return Shown(conversation, bubbles(session, events, messages))


def bubbles(session: Session, events: EventLog, messages: Sequence[Message]) -> list[Bubble]:
    """Messages with their text so far. The state was read before the log: what ends in between is still kept."""
    generations = latest_of(session, messages)
    return [bubble_of(message, generations.get(message.id), events) for message in messages]


def bubble_of(message: Message, generation: Generation | None, events: EventLog) -> Bubble:
    """One message with its text so far."""
    if generation is None or not message.active:
        return Bubble(message, generation, message.text)
    kept = events.snapshot(generation.id, generation.covered)
    return Bubble(message, generation, message.text + kept.text, kept.number)
