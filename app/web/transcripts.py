"""What a conversation's page shows, read in one go: its messages with their generations."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Message
from app.conversations.queries import transcript
from app.generation.models import Generation
from app.generation.queries import latest_of
from app.web.bodies import bodies
from app.web.parts import Parts

PAGE = 50
"""Messages shown at first, and more at a time."""
LEADING = 5
"""Messages shown before one that was asked for."""


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message as it is shown: `html` is what stands in its body.

    Of a running answer `html` covers its events up to `after`, and is what `screen` shows.
    """

    message: Message
    generation: Generation | None
    html: Markup
    after: int = 0
    screen: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A conversation as it is shown: from one of its messages to its end.

    `earlier` is the message from which a page shows more; None where nothing comes before.
    """

    conversation: Conversation
    bubbles: list[Bubble]
    earlier: str | None = None

    @property
    def first(self) -> str:
        """The id of the first message that is shown. Empty where there is none."""
        return self.bubbles[0].message.id if self.bubbles else ""

    @property
    def leaf(self) -> str:
        """The id of the last message that is shown: what a page that sends a turn has seen. Empty at first."""
        return self.bubbles[-1].message.id if self.bubbles else ""

    @property
    def running(self) -> Generation | None:
        """The generation that Stop would stop: the first that has not ended."""
        return next((b.generation for b in self.bubbles if b.message.active and b.generation), None)

    def after(self, leaf: str | None, made: set[str]) -> list[Bubble]:
        """What a page that shows the messages up to `leaf` lacks; where that is not told, what was just made.

        A sending whose answer was lost on the line is sent again, and by then its page may show its turn.
        """
        places = [bubble.message.id for bubble in self.bubbles]
        if leaf in places:
            return self.bubbles[places.index(leaf) + 1 :]
        return [bubble for bubble in self.bubbles if bubble.message.id in made]


@dataclass(frozen=True, slots=True)
class Window:
    """What of a long conversation to show.

    `first` is the message to begin with; the newest page where it is not among them. `before` is one to end
    before, for a page that shows the rest already. `around` is one that must be in it, with what led to it.
    """

    first: str = ""
    before: str = ""
    around: str = ""

    def of(self, messages: Sequence[Message]) -> tuple[int, int]:
        """The places of the first message to show, and of the first behind the last."""
        places = {message.id: place for place, message in enumerate(messages)}
        end = places.get(self.before, len(messages))
        if self.around in places:
            return max(0, places[self.around] - LEADING), end
        return min(places.get(self.first, max(0, end - PAGE)), end), end


NEWEST = Window()


def shown(parts: Parts, session: Session, conversation: Conversation, window: Window = NEWEST) -> Shown:
    """A conversation with everything its page needs."""
    messages = transcript(session, conversation)
    first, end = window.of(messages)
    earlier = messages[max(0, first - PAGE)].id if first else None
    return Shown(conversation, bubbles(parts, session, messages[first:end]), earlier)


def bubbles(parts: Parts, session: Session, messages: Sequence[Message]) -> list[Bubble]:
    """Messages as they are now. The state was read before the log: what ends in between is still kept there."""
    generations = latest_of(session, messages)
    ended = bodies(parts.database, [message for message in messages if not message.active])
    return [
        Bubble(message, generations.get(message.id), ended[message.id])
        if message.id in ended
        else _running(parts, message, generations[message.id])
        for message in messages
    ]


def _running(parts: Parts, message: Message, generation: Generation) -> Bubble:
    screen = parts.screens.open(generation.id, message, generation.covered)
    snapshot = screen.snapshot()
    return Bubble(message, generation, snapshot.html, snapshot.number, screen.token)
