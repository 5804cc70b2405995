"""What a model says, as it is kept and shown: LF line ends, and nothing that some databases refuse."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from app.engines.protocol import Output, Piece


class PlainText:
    """Makes the text of an answer plain, piece by piece. One for each answer."""

    def __init__(self) -> None:
        self._after_cr = False

    def feed(self, text: str) -> str:
        """The piece with CR LF and CR as LF, also where a CR LF is cut in two; NUL and half characters replaced."""
        if not text:
            return text
        if self._after_cr:
            text = text.removeprefix("\n")
        self._after_cr = text.endswith("\r")
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
        return text.encode("utf-8", "replace").decode("utf-8")


def plain(outputs: Iterable[Output]) -> Iterator[Output]:
    """The outputs of an engine, with the text of one answer made plain."""
    text = PlainText()
    for output in outputs:
        if isinstance(output, Piece) and (said := text.feed(output.text)) != output.text:
            yield replace(output, text=said)
        else:
            yield output
