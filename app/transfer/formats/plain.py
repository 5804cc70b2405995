"""Plain text: what is shown, for reading and pasting."""

from collections.abc import Iterable, Iterator

from app.transfer.contents import Content, at, note_on, said_by, spoken

_RULE = "─" * 72


def write(contents: Iterable[Content]) -> Iterator[str]:
    """One conversation after the other."""
    for number, content in enumerate(contents):
        yield "\n\n" if number else ""
        yield f"{content.conversation.title}\n{'═' * 72}\n"
        for message in content.path:
            who = " · ".join(filter(None, (said_by(message), at(message), note_on(message))))
            yield f"\n{who}\n{_RULE}\n{spoken(message)}\n"
