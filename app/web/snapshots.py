"""What a shared page shows: the HTML of its messages, made once and kept."""

import logging

from markupsafe import Markup, escape
from sqlalchemy import update

from app.database import Database
from app.errors import AppError
from app.rendering.answer import render_answer
from app.rendering.markdown import RENDERER_VERSION
from app.transfer.models import Share, SharedMessage
from app.web.bodies import source

log = logging.getLogger(__name__)


def snapshot(database: Database, share: Share) -> list[tuple[SharedMessage, Markup]]:
    """The messages of a share, each with what stands in its body.

    The text is what is kept for good: when the renderer has learned to refuse more, old shares are made anew.
    """
    if share.bodies is None or share.renderer != RENDERER_VERSION:
        share.bodies = [str(_body(message, place)) for place, message in enumerate(share.messages, 1)]
        _keep(database, share)
    shown = [Markup(html) for html in share.bodies]  # noqa: S704  (our renderer made it)
    return list(zip(share.messages, shown, strict=True))


def _body(message: SharedMessage, place: int) -> Markup:
    if message["role"] == "user":
        return escape(message["text"])
    # Not the message's own id: nothing of the conversation but what it says is on the page.
    try:
        return render_answer(message["text"], str(place))
    except Exception:
        log.exception("Message %d of a share can't be rendered", place)
        return source(str(place), message["text"])


def _keep(database: Database, share: Share) -> None:
    try:
        with database.write() as session:
            kept = update(Share).where(Share.id == share.id)
            session.execute(kept.values(bodies=share.bodies, renderer=RENDERER_VERSION))
    except AppError as error:
        # A full disk costs time, not the page.
        log.warning("A rendered share could not be kept: %s", error.words)
