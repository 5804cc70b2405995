"""What a conversation's page shows, read in one go: its messages with their generations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup
from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Message
from app.conversations.queries import Turn
from app.conversations.tree import Tree, Variants, read_whole, tree_of
from app.generation.models import Generation
from app.generation.queries import latest_of
from app.web.bodies import bodies, body
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
    variants: Variants | None = None
    """Where it stands among those beside it; None where there are none."""
    unanswered: bool = False
    """Whether it is a question with nothing under it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A conversation as it is shown: from one of its messages to its end.

    `earlier` is the message from which a page shows more; None where nothing comes before.
    """

    conversation: Conversation
    bubbles: list[Bubble]
    answering: bool
    """Whether any answer of the conversation is to come or coming, also on a branch that is not shown."""
    earlier: str | None = None
    messages: Sequence[Message] | None = ()
    """All of its messages, also those that are not shown; None for a long conversation, which is not read whole."""
    cut: str = ""
    """The id of the first message that the newest answer was made with, where older ones did not go in."""

    @property
    def first(self) -> str:
        """The id of the first message that is shown. Empty where there is none."""
        return self.bubbles[0].message.id if self.bubbles else ""

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

    @property
    def generations(self) -> dict[str, Generation]:
        """What made the answers that are shown, by message id."""
        return {bubble.message.id: bubble.generation for bubble in self.bubbles if bubble.generation}

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


def shown(
    parts: Parts,
    session: Session,
    conversation: Conversation,
    window: Window = NEWEST,
    *,
    through: str | None = None,
    begun: str | None = None,
) -> Shown:
    """A conversation with everything its page needs.

    `through` is a message whose branch is to be shown whatever is chosen; one that is not there changes nothing.
    `begun` is an answer that this page has just asked for: be it over by now, it is shown as running, and its stream
    brings the end, with all that the page tells and does then.
    """
    tree = tree_of(session, conversation.id, bare=True)
    messages = tree.path(through or window.around or window.before or None)
    first, end = window.of(messages)
    # Of a long conversation only what is shown: it is opened more often than it is read from its beginning.
    complete = len(messages) <= PAGE
    read_whole(session, messages if complete else messages[first:end], ids=complete)
    for message in messages:
        if message.id == begun and not message.active:
            session.expunge(message)  # it is only shown as what it no longer is
            message.state = "running"
    return Shown(
        conversation,
        bubbles(parts, session, tree, messages[first:end]),
        answering=any(message.active for message in tree),
        earlier=messages[max(0, first - PAGE)].id if first else None,
        messages=messages if complete else None,
        cut=_cut(session, messages),
    )


def shown_first(parts: Parts, turn: Turn, generation: Generation) -> Shown:
    """A conversation that was made just now, with its first turn: nothing of it needs to be read again."""
    question, answer = turn.question, turn.answer
    running = _running(parts, answer, generation)
    if running.after:
        answer.state = "running"
    return Shown(
        turn.conversation,
        [Bubble(question, None, body(question)), running],
        answering=True,
        messages=[question, answer],
    )


def bubbles(parts: Parts, session: Session, tree: Tree, messages: Sequence[Message]) -> list[Bubble]:
    """Messages as they are now. The state was read before the log: what ends in between is still kept there."""
    generations = latest_of(session, messages)
    ended = bodies(parts.database, [message for message in messages if not message.active])
    return [
        _in_tree(
            tree,
            Bubble(message, generations.get(message.id), ended[message.id])
            if message.id in ended
            else _running(parts, message, generations[message.id]),
        )
        for message in messages
    ]


def _in_tree(tree: Tree, bubble: Bubble) -> Bubble:
    """A bubble with what its place in the tree adds to it."""
    message, variants = bubble.message, tree.variants_of(bubble.message)
    unanswered = message.role == "user" and not tree.children(message.id)
    if variants.count < 2 and not unanswered:
        return bubble
    return replace(bubble, variants=variants if variants.count > 1 else None, unanswered=unanswered)


def _cut(session: Session, messages: Sequence[Message]) -> str:
    newest = [message for message in messages if message.role == "assistant" and message.state != "queued"][-1:]
    begun = latest_of(session, newest)
    left_out = begun[newest[0].id].left_out if begun else 0
    return messages[left_out].id if left_out else ""


def _running(parts: Parts, message: Message, generation: Generation) -> Bubble:
    screen = parts.screens.open(generation.id, message, generation.covered)
    snapshot = screen.snapshot()
    return Bubble(message, generation, snapshot.html, snapshot.number, screen.token)
