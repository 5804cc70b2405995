"""A long history, made by rule, and what finding, opening and saving cost in it: `python -m bench.history`.

Not one of the timed parts: to write a million messages takes longer than all of them together.
"""

import argparse
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import httpx
from sqlalchemy import Table, func, insert, select

from app.conversations.models import Conversation, Message
from app.conversations.search.index import write_index
from app.database import Database, new_id
from app.schema import upgrade
from bench.corpus import LANGUAGES, Corpus
from bench.servers import rheo

YEARS = 4
MODELS = ("smollm2", "demo-large", "demo-small")
_AT_ONCE = 100
_CONVERSATIONS, _MESSAGES = cast("Table", Conversation.__table__), cast("Table", Message.__table__)


def write(path: Path, conversations: int, messages: int) -> None:
    """Make a database of so many conversations and messages over some years, or go on with one that was begun."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that one thing took, each time."""

    what: str
    seconds: list[float]

    def __str__(self) -> str:
        median, worst = statistics.median(self.seconds) * 1000, max(self.seconds) * 1000
        return f"{self.what}: median {median:.1f} ms, worst {worst:.1f} ms of {len(self.seconds)}"


QUERIES = (
    "a",
    "é",
    "の",
    "的",
    "한",
    "th",
    "st",
    "στ",
    "天气",
    "서버",
    "->",
    "the",
    "reç",
    "και",
    "テスト",
    "onder",
    "C++",
    "京都",
    "預約",
    "호텔",
)
"""Of one to five characters and words in five languages, and signs."""


def measure(folder: Path) -> Iterator[Cost]:
    """What a served history costs: as a browser asks, one after the other."""
    with rheo(script=[{"id": "echo", "echo": True}], data_dir=folder) as server:
        server.wait("/ready")
        base = f"http://127.0.0.1:{server.port}"
        # A person has the page before searching; what a start still does at that moment is measured in start.py.
        httpx.get(base, timeout=60).raise_for_status()
        with httpx.Client(base_url=base, headers={"HX-Request": "true"}, timeout=60) as asking:
            for query in QUERIES:
                asked = partial(asking.get, "/search", params={"q": query, "brief": 1})
                yield Cost(f"search {query}", _times(asked, 7))
            listed = httpx.get(f"{base}/conversations", timeout=60).text
            ids = sorted(set(re.findall(r"/conversations/([0-9a-f]{24})", listed)))[:20]
            yield Cost("the sidebar's next page", _times(lambda: asking.get("/sidebar"), 20))
        with httpx.Client(base_url=base, timeout=60) as asking:
            yield Cost("the first page", _times(lambda: asking.get("/"), 20))
            each = cycle(ids)
            yield Cost("opening a conversation", _times(lambda: asking.get(f"/conversations/{next(each)}"), 20))
            yield Cost(
                "saving a message", _times(lambda: asking.post("/conversations", data={"text": "a new message"}), 20)
            )


def _times(ask: Callable[[], httpx.Response], times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        response = ask()
        seconds.append(time.perf_counter() - began)
        assert response.status_code in (200, 303), response.text
    return seconds


def sizes(path: Path) -> str:
    """What the index takes beside the texts."""
    database = Database(f"sqlite:///{path}")
    with database.read() as session:
        asked = session.connection().exec_driver_sql
        texts = asked("SELECT sum(length(CAST(text AS BLOB))) FROM messages").scalar_one()
        index = asked("SELECT sum(pgsize) FROM dbstat WHERE name GLOB '*search_*'").scalar_one()
    database.close()
    return f"texts {texts / 1e6:.0f} MB, index {index / 1e6:.0f} MB: {index / texts:.2f} of them"


def main() -> None:
    """Write a history where there is none yet, and measure."""
    parser = argparse.ArgumentParser(prog="bench.history", description=__doc__)
    parser.add_argument("folder", type=Path, help="the data folder to use; what is in it is gone on with")
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help="only write")
    options = parser.parse_args()
    path = options.folder / "rheo.db"
    write(path, options.conversations, options.messages)
    if options.write:
        return
    print(sizes(path))
    costs = []
    for cost in measure(options.folder):
        print(cost, flush=True)
        costs += [cost] if cost.what.startswith("search ") else []
    print(Cost("all searches", [second for cost in costs for second in cost.seconds]))


if __name__ == "__main__":
    main()
