"""A long history, made by rule, and what finding, opening and saving cost in it."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Table, func, insert, select

from app.conversations.models import Conversation, Message
from app.conversations.search.index import write_index
from app.database import Database, new_id
from app.schema import upgrade
from bench.corpus import LANGUAGES, Corpus

YEARS = 4
MODELS = ("smollm2", "demo-large", "demo-small")
_AT_ONCE = 100
_CONVERSATIONS, _MESSAGES = cast("Table", Conversation.__table__), cast("Table", Message.__table__)


def write(path: Path, conversations: int, messages: int) -> None:
    """Make a database of so many conversations and messages over some years, or go on with one that was begun."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = Database(f"sqlite:///{path}")
    upgrade(database)
    database.before_commit(write_index)
    corpus = Corpus()
    step = timedelta(days=365 * YEARS) / conversations
    first = datetime(2026, 11, 1, tzinfo=UTC) - conversations * step
    with database.read() as session:
        begun = session.scalar(select(func.count()).select_from(Conversation)) or 0
    for start in range(begun, conversations, _AT_ONCE):
        corpus.random.seed(start)
        numbers = range(start, min(start + _AT_ONCE, conversations))
        made = [_conversation(corpus, first + number * step, messages // conversations) for number in numbers]
        with database.write() as session:
            session.execute(insert(_CONVERSATIONS), [row for row, _ in made])
            session.execute(insert(_MESSAGES), [row for _, rows in made for row in rows])
    database.close()


def _conversation(corpus: Corpus, at: datetime, messages: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    language = corpus.random.choice(LANGUAGES)
    rows = list(_messages(corpus, language, new_id(), at, messages))
    title = corpus.text(language, 4).rstrip(".。")
    times = {"created_at": at, "updated_at": rows[-1]["created_at"]}
    return {"id": rows[0]["conversation_id"], "owner": "local", "title": title, **times}, rows


def _messages(
    corpus: Corpus, language: str, conversation_id: str, at: datetime, messages: int
) -> Iterator[dict[str, Any]]:
    parent = None
    model = corpus.random.choice(MODELS)
    for number in range(messages):
        answer = number % 2 == 1
        text = corpus.text(language, corpus.random.randint(20, 150) if answer else corpus.random.randint(3, 25))
        if answer and corpus.random.random() < 0.2:
            text += "\n\n" + corpus.code()
        ended = corpus.random.choices(("stop", "length", "cancelled"), (95, 3, 2))[0]
        message = {
            "id": new_id(),
            "conversation_id": conversation_id,
            "parent_id": parent,
            "role": "assistant" if answer else "user",
            "text": text,
            "state": "stopped" if answer and ended == "cancelled" else "finished",
            "ending": ended if answer else None,
            "model": model if answer else None,
            "created_at": at + number * timedelta(seconds=40),
        }
        parent = message["id"]
        yield message


def main() -> None:
    """Only write the history."""
    parser = argparse.ArgumentParser(prog="bench.history", description=__doc__)
    parser.add_argument("path", type=Path, help="the database to write")
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    options = parser.parse_args()
    write(options.path, options.conversations, options.messages)


if __name__ == "__main__":
    main()
