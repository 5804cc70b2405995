"""What a conversation's page shows, read in one go: its messages with their generations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Message
from app.conversations.tree import Tree, Variants, tree_of
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
    variants: Variants | None = None
    """Where it stands among those beside it; None where there are none."""
    unanswered: bool = False
    """Whether it is a question with nothing under it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A conversation as it is shown."""

    conversation: Conversation
    bubbles: list[Bubble]
    answering: bool
    """Whether any answer of the conversation is to come or coming, also on a branch that is not shown."""

    @property
    def leaf(self) -> str:
        """The id of the last message that is shown: what a page that sends a turn has seen. Empty at first."""
        return self.bubbles[-1].message.id if self.bubbles else ""

    def holds(self, message_id: str | None) -> bool:
        """Whether this message is among what is shown."""
        return any(bubble.message.id == message_id for bubble in self.bubbles)

    @property
    def forks(self) -> str:
        """Which variants are shown and of how many: what a page compares to learn that there are others."""
        return " ".join(str(bubble.variants) for bubble in self.bubbles if bubble.variants)

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


def shown(session: Session, events: EventLog, conversation: Conversation, through: str | None = None) -> Shown:
    """A conversation with everything its page needs.

    `through` is a message whose branch is to be shown whatever is chosen; one that is not there changes nothing.
    """
    tree = tree_of(session, conversation.id)
    answering = any(message.active for message in tree)
    return Shown(conversation, bubbles(session, events, tree, tree.path(through)), answering)


def bubbles(session: Session, events: EventLog, tree: Tree, messages: Sequence[Message]) -> list[Bubble]:
    """Messages with their text so far. The state was read before the log: what ends in between is still kept."""
    generations = latest_of(session, messages)
    return [in_tree(tree, bubble_of(message, generations.get(message.id), events)) for message in messages]


def in_tree(tree: Tree, bubble: Bubble) -> Bubble:
    """A bubble with what its place in the tree adds to it."""
    message, variants = bubble.message, tree.variants_of(bubble.message)
    unanswered = message.role == "user" and not tree.children(message.id)
    if variants.count < 2 and not unanswered:
        return bubble
    return replace(bubble, variants=variants if variants.count > 1 else None, unanswered=unanswered)


def bubble_of(message: Message, generation: Generation | None, events: EventLog) -> Bubble:
    """One message with its text so far."""
    if generation is None or not message.active:
        return Bubble(message, generation, message.text)
    kept = events.snapshot(generation.id, generation.covered)
    return Bubble(message, generation, message.text + kept.text, kept.number)
