"""What streamed blocks are held against: the library's render of the whole text, and the plain rule."""

from app.rendering.blocks import nothing_known
from app.rendering.cleaning import cleaned
from app.rendering.document import PARSER, Document, Normaliser, line_starts, units


def normal(text: str) -> str:
    normaliser = Normaliser()
    return normaliser.feed(text) + normaliser.end()


def whole(text: str, document_id: str = "m1") -> str:
    """Parsed, rendered and cleaned at one go, by the library."""
    return cleaned(PARSER.render(normal(text), Document(document_id).env))


def plain_cuts(text: str) -> list[str]:
    """The plain rule, without a schedule: after every whole line, all blocks but the last are finished."""
    sources, buffer = [], ""
    for line in normal(text).split("\n"):
        buffer += line + "\n"
        found = units(buffer, nothing_known())
        if len(found) > 1:
            cut = line_starts(buffer)[found[-1].start]
            sources.append(buffer[:cut])
            buffer = buffer[cut:]
    return [*sources, buffer.removesuffix("\n")]


def by_plain_rule(text: str, document_id: str = "m1") -> str:
    """The blocks of the plain rule, each rendered when it is finished, with what is known at the end."""
    document = Document(document_id)
    for source in plain_cuts(text):
        document.units(source)
    refs = document.env["footnotes"]["refs"]
    document.env["footnotes"]["refs"] = refs.reset()
    blocks = [block for source in plain_cuts(text) for block in document.blocks(source)]
    document.env["footnotes"] = {"refs": refs.reset(), "list": {}}
    tokens = []
    for block in blocks:
        again = document.again(block)
        tokens += again if block.note is not None else []
    notes = document.notes(tokens).html if document.env["footnotes"]["list"] else ""
    return "".join(block.html for block in blocks) + notes
