"""Read and write blocks on a real SQLite file."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from app.conversations.models import Conversation, Message
from app.database import Database, new_id
from app.errors import Misconfigured, Unavailable


@pytest.fixture
def database(tmp_path: Path, empty_database: Path) -> Iterator[Database]:
    path = tmp_path / "rheo.db"
    path.write_bytes(empty_database.read_bytes())
    opened = Database(f"sqlite:///{path}")
    yield opened
    opened.close()


def titles(database: Database) -> list[str]:
    with database.read() as session:
        return [row.title for row in session.query(Conversation).order_by(Conversation.id)]


def test_leaving_a_write_block_commits(database: Database) -> None:
    with database.write() as session:
        session.add(Conversation(owner="local", title="kept"))
    assert titles(database) == ["kept"]


def test_an_error_rolls_the_whole_block_back(database: Database) -> None:
    def fail() -> None:
        with database.write() as session:
            session.add(Conversation(owner="local", title="lost"))
            session.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert titles(database) == []
    with database.write() as session:  # and the next writer is not kept waiting
        session.add(Conversation(owner="local", title="kept"))
    assert titles(database) == ["kept"]


def test_a_read_block_sees_one_state(database: Database) -> None:
    with database.read() as session:
        assert session.query(Conversation).count() == 0
        with database.write() as other:
            other.add(Conversation(owner="local", title="new"))
        assert session.query(Conversation).count() == 0
    assert titles(database) == ["new"]


def test_rows_can_be_shown_after_their_block(database: Database) -> None:
    with database.write() as session:
        made = Conversation(owner="local", title="shown")
        session.add(made)
    assert made.title == "shown"


def test_e30_twenty_writers_that_read_first_all_succeed(database: Database) -> None:
    with database.write() as session:
        session.add(Conversation(id="one", owner="local", title="0"))
    errors: list[Exception] = []

    def count_up() -> None:
        try:
            for _ in range(10):
                with database.write() as session:
                    row = session.get_one(Conversation, "one")
                    row.title = str(int(row.title) + 1)
        except Exception as error:
            errors.append(error)

    writers = [threading.Thread(target=count_up) for _ in range(20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert errors == []
    assert titles(database) == ["200"]


def test_a_write_block_is_a_writer_from_its_start(database: Database, tmp_path: Path) -> None:
    other = Database(f"sqlite:///{tmp_path / 'rheo.db'}")
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with other.write() as session:
            session.execute(text("SELECT 1"))  # only reads, so far
            held.set()
            release.wait(5)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(5)
    waited = threading.Timer(0.2, release.set)
    waited.start()
    with database.write() as session:  # another process: SQLite's own wait
        session.add(Conversation(owner="local", title="after"))
    assert release.is_set()
    holder.join()
    waited.join()
    other.close()
    assert titles(database) == ["after"]


def test_foreign_keys_hold_and_cascade(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(Message(conversation_id="none", role="user", text="x"))
    with database.write() as session:
        session.add(Conversation(id="one", owner="local", title="x"))
        session.flush()
        session.add(Message(conversation_id="one", role="user", text="x"))
    with database.write() as session:
        session.delete(session.get_one(Conversation, "one"))
    with database.read() as session:
        assert session.query(Message).count() == 0


@pytest.mark.parametrize(("field", "value"), [("role", "robot"), ("state", "lost")])
def test_only_words_that_we_know_are_stored(database: Database, field: str, value: str) -> None:
    with database.write() as session:
        session.add(Conversation(id="one", owner="local", title="x"))
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(Message(**{"conversation_id": "one", "role": "user", "text": "x", field: value}))


def test_moments_come_back_with_their_zone(database: Database) -> None:
    given = datetime(2024, 12, 31, 23, 0, tzinfo=timezone(timedelta(hours=9)))
    with database.write() as session:
        session.add(Conversation(id="one", owner="local", title="x", created_at=given))
    with database.read() as session:
        stored = session.get_one(Conversation, "one").created_at
    assert stored == given
    assert stored.tzinfo == UTC


def test_ids_sort_by_their_making_also_across_threads() -> None:
    made: list[str] = []
    lock = threading.Lock()

    def make() -> None:
        for _ in range(500):
            with lock:
                made.append(new_id())

    makers = [threading.Thread(target=make) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert made == sorted(made)
    assert len(set(made)) == 2_000


def test_a_full_disk_is_told_in_words(database: Database, tmp_path: Path) -> None:
    database.close()  # so that the next connection is the only one
    with database.read() as session:
        pages = session.scalar(text("PRAGMA page_count"))
        session.execute(text(f"PRAGMA max_page_count={pages}"))
    with pytest.raises(Unavailable, match="disk is full"), database.write() as session:
        session.add(Conversation(owner="local", title="x" * 1_000_000))


def test_what_people_wrote_is_not_in_the_words_of_an_error(database: Database) -> None:
    with pytest.raises(IntegrityError) as error, database.write() as session:
        session.add(Message(conversation_id="none", role="user", text="a secret"))
    assert "a secret" not in str(error.value)


@pytest.mark.parametrize("kind", ["no folder", "no database"])
def test_a_database_that_can_not_be_opened_is_told_in_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "away" / "rheo.db" if kind == "no folder" else tmp_path / "rheo.db"
    if kind == "no database":
        path.write_text("this is no database " * 100)
    broken = Database(f"sqlite:///{path}")
    with pytest.raises(Misconfigured) as error:
        broken.schema()
    assert "\n" not in error.value.words
    broken.close()
