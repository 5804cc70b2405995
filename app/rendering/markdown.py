"""Text of a model or a person to safe HTML. Markdown first, cleaned after: never the other way round."""

from collections.abc import Collection

from markupsafe import Markup

from app.rendering.blocks import Blocks

# Stored HTML is made again where this has changed. Raise it with every change of what comes out.
RENDERER_VERSION = 1


def render_markdown(text: str, document_id: str = "", image_hosts: Collection[str] = ()) -> Markup:
    """Safe HTML of a Markdown text. Takes any text, never raises for its content.

    The ids of footnotes begin with `document_id`; pictures from other hosts than `image_hosts` are links.
    """
    blocks = Blocks(document_id, image_hosts)
    blocks.hold(text)
    blocks.end()
    return Markup(blocks.html)  # noqa: S704  (each block was cleaned)
