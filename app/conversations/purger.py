"""The purger: removes for good what has been in the trash long enough, at the start and once a day.

Each of its transactions is short: whoever writes meanwhile waits for some milliseconds at most.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from sqlalchemy.orm import Session

from app.conversations.search.index import merge_index
from app.conversations.tags import forget_unused_tags
from app.conversations.trash import give_up_since, given_up, remove, remove_messages
from app.database import Database, now

log = logging.getLogger(__name__)

DAY_S = 24 * 3600
_BREATH_S = 0.002
_CHECKPOINTS = 20
_BETWEEN_CHECKPOINTS_S = 0.5

Forget = Callable[[Session, Sequence[str]], None]
"""Removes what is kept of conversations outside of their own tables; called in the transaction that removes them."""


class Purger:
    """Owns the thread. What is in the trash for `days` is removed."""

    def __init__(self, database: Database, days: float, forget: Forget) -> None:
        self._database = database
        self._days = days
        self._forget = forget
        self._wanted = threading.Event()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._work, name="purger", daemon=True)

    def start(self) -> None:
        """Begin with what is due now."""
        self._wanted.set()
        self._thread.start()

    def wake(self) -> None:
        """Do it soon: somebody has emptied the trash."""
        self._wanted.set()

    def close(self) -> None:
        """Leave off; what is not removed yet will be at the next start."""
        self._leaving.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._leaving.is_set():
            self._wanted.wait(DAY_S)
            self._wanted.clear()
            try:
                self._purge()
            except Exception:
                log.exception("The trash could not be emptied; it is tried again tomorrow")

    def _purge(self) -> None:
        with self._database.write() as session:
            give_up_since(session, now() - timedelta(days=self._days))
            due = given_up(session)
        for conversation_id in due:
            self._remove(conversation_id)
        if due and not self._leaving.is_set():
            with self._database.write() as session:
                forget_unused_tags(session)
            self._merge_index()
            log.info("Removed %d conversations from the trash", len(due))
        # The file itself says nothing of them any more; its log might.
        for _ in range(_CHECKPOINTS):
            if self._database.checkpoint() or self._leaving.wait(_BETWEEN_CHECKPOINTS_S):
                break

    def _merge_index(self) -> None:
        begin = more = True
        while more and not self._leaving.wait(_BREATH_S):
            with self._database.write() as session:
                more = merge_index(session.connection(), begin=begin)
            begin = False

    def _remove(self, conversation_id: str) -> None:
        more = True
        while more and not self._leaving.wait(_BREATH_S):
            with self._database.write() as session:
                more = remove_messages(session, conversation_id)
                if not more:
                    self._forget(session, [conversation_id])
                    remove(session, conversation_id)
