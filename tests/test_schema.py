"""Migrations: from empty, on data, against the models, and what must not be begun."""

import logging
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

import app.conversations.models
import app.conversations.search.index
import app.events.table
import app.generation.models
import app.transfer.models
import app.web.sign_ins  # noqa: F401  (each import brings its tables)
from app.conversations.search.hits import find
from app.conversations.search.index import write_index
from app.conversations.search.searches import Vocabulary, search_of
from app.database import SCHEMA, Base, Database
from app.errors import Misconfigured
from app.schema import ROOT, upgrade

CONFIG = Config(ROOT / "alembic.ini")
REVISIONS = [script.revision for script in ScriptDirectory.from_config(CONFIG).walk_revisions()][::-1]
# Rows as the oldest tables take them: three chats of ten messages, each the child of the one before.
ROWS = [
    *(
        "INSERT INTO conversations (id, owner, title, created_at, updated_at) "
        f"VALUES ('c{chat}', 'local', 'Chat {chat}', '2026-01-0{chat} 10:00:00', '2026-01-0{chat} 11:00:00')"
        for chat in (1, 2, 3)
    ),
    *(
        "INSERT INTO messages (id, conversation_id, parent_id, role, text, state, created_at) VALUES "
        f"('c{chat}m{number}', 'c{chat}', nullif('c{chat}m{number - 1}', 'c{chat}m-1'), "
        f"'{role}', 'Text {chat}/{number}', 'finished', '2026-01-0{chat} 10:0{number}:00')"
        for chat in (1, 2, 3)
        for number, role in enumerate(("user", "assistant") * 5)
    ),
    *(
        "INSERT INTO generations (id, message_id, covered, created_at) "
        f"VALUES ('g{chat}', 'c{chat}m9', 4, '2026-01-0{chat} 10:09:00')"
        for chat in (1, 2, 3)
    ),
    "INSERT INTO generation_pieces (generation_id, number, text, token_ids) VALUES ('g3', 5, 'piece', '[1, 2]')",
]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'rheo.db'}")
    yield opened
    opened.close()


def migrate(database: Database, revision: str, down: bool = False) -> None:
    with database.migrating() as connection:
        CONFIG.attributes["connection"] = connection
        (command.downgrade if down else command.upgrade)(CONFIG, revision)
    del CONFIG.attributes["connection"]


def contents(database: Database) -> dict[str, list[object]]:
    columns = {
        "conversations": "id, owner, title, created_at, updated_at",
        "messages": "id, conversation_id, parent_id, role, text, state, created_at",
        "generations": "id, message_id, covered, created_at",
        "generation_pieces": "generation_id, number, text, token_ids",
    }
    with database.read() as session:
        assert session.execute(text("PRAGMA foreign_key_check")).all() == []
        return {
            table: [tuple(row) for row in session.execute(text(f"SELECT {names} FROM {table} ORDER BY 1, 2"))]
            for table, names in columns.items()
        }


def test_the_newest_schema_is_the_one_that_the_code_expects() -> None:
    assert REVISIONS[-1] == SCHEMA
    assert ScriptDirectory.from_config(CONFIG).get_heads() == [SCHEMA]


def test_an_empty_database_is_brought_up_to_date_once(database: Database) -> None:
    assert database.schema() is None
    assert upgrade(database) is True
    assert database.schema() == SCHEMA
    assert upgrade(database) is False


def test_the_models_are_what_the_migrations_make(database: Database) -> None:
    upgrade(database)
    with database.migrating() as connection:
        # What SQLite keeps of the full-text index is its own.
        own = {"include_name": lambda name, kind, _: kind != "table" or not str(name).startswith("search_index")}
        compared = {"compare_type": True, "compare_server_default": True, **own}
        context = MigrationContext.configure(connection, opts=compared)
        assert compare_metadata(context, Base.metadata) == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_e31_the_data_of_every_older_schema_is_kept(database: Database, revision: str) -> None:
    migrate(database, revision)
    with database.write() as session:
        for row in ROWS:
            session.execute(text(row))
    before = contents(database)
    assert [len(rows) for rows in before.values()] == [3, 30, 3, 1]
    upgrade(database)
    assert contents(database) == before
    if len(REVISIONS) > 1:
        migrate(database, "-1", down=True)
        assert contents(database) == before
        upgrade(database)
    assert contents(database) == before
    # Rows that come from outside of Rheo where there is an index already are put into it by the next write.
    database.before_commit(write_index)
    with database.write():
        pass
    with database.read() as session:
        assert session.scalar(text("PRAGMA foreign_keys")) == 1
        found = find(session, "local", search_of("Text 3/7", {}, Vocabulary()), {})
        assert [hit.message_id for group in found.groups.values() for hit in group.hits] == ["c3m7"]


def test_variants_and_branches_come_to_data_and_go_without_bringing_back_what_was_deleted(database: Database) -> None:
    migrate(database, "0003")
    with database.write() as session:
        for row in ROWS[:-1]:  # pieces have another table by then
            session.execute(text(row))
        session.execute(
            text("INSERT INTO generation_pieces (generation_id, number, text, token_ids) VALUES ('g3', 5, 'p', '[]')")
        )
    before = contents(database)
    upgrade(database)
    with database.write() as session:
        assert set(session.execute(text("SELECT chosen, deleted_at FROM messages"))) == {(0, None)}
        session.execute(text("UPDATE messages SET deleted_at = '2026-02-01' WHERE id IN ('c3m8', 'c3m9')"))
        session.execute(text("UPDATE messages SET chosen = 3 WHERE id = 'c1m0'"))
    assert contents(database) == before
    migrate(database, "0003", down=True)
    left = contents(database)
    assert left["conversations"] == before["conversations"]
    assert left["messages"] == [row for row in before["messages"] if row[0] not in ("c3m8", "c3m9")]  # type: ignore[index]
    assert [row[0] for row in left["generations"]] == ["g1", "g2"]  # type: ignore[index]
    assert left["generation_pieces"] == []
    upgrade(database)
    assert contents(database) == left


def test_the_trash_comes_to_data_and_goes_with_all_that_is_in_it(database: Database) -> None:
    migrate(database, "0007")
    with database.write() as session:
        for row in ROWS:
            session.execute(text(row))
        for message in ("c2m9", "c3m9"):
            session.execute(text(f"INSERT INTO ratings VALUES ('{message}', 1, 'well said', '2026-02-01')"))
    before = contents(database)
    upgrade(database)
    assert contents(database) == before
    with database.write() as session:
        session.execute(text("UPDATE conversations SET trashed_at = '2026-02-01' WHERE id = 'c3'"))
        session.execute(text("INSERT INTO tags (id, owner, name, key) VALUES ('t', 'local', 'Work', 'work')"))
        session.execute(text("INSERT INTO taggings (conversation_id, tag_id) VALUES ('c3', 't')"))
    migrate(database, "0007", down=True)
    left = contents(database)
    assert [row[0] for row in left["conversations"]] == ["c1", "c2"]  # type: ignore[index]
    assert left["messages"] == [row for row in before["messages"] if row[1] != "c3"]  # type: ignore[index]
    assert [row[0] for row in left["generations"]] == ["g1", "g2"]  # type: ignore[index]
    assert left["generation_pieces"] == []
    with database.read() as session:
        assert session.scalars(text("SELECT message_id FROM ratings")).all() == ["c2m9"]
    upgrade(database)
    assert contents(database) == left


def test_a_database_of_a_newer_rheo_is_left_alone(database: Database) -> None:
    upgrade(database)
    with database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Misconfigured, match="9999") as error:
        upgrade(database)
    assert "\n" not in error.value.words
    assert database.schema() == "9999"


def test_a_migration_that_fails_leaves_nothing_behind(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alembic.ini", "migrations"):
        source = ROOT / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy(source, tmp_path)
    last = max((tmp_path / "migrations" / "versions").glob("*.py"), key=lambda path: SCHEMA in path.read_text())
    broken = last.read_text().replace(
        "\n\ndef downgrade", '\n    op.execute("INSERT INTO nowhere VALUES (1)")\n\n\ndef downgrade'
    )
    last.write_text(broken)
    monkeypatch.setattr("app.schema.ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="nowhere"):
        upgrade(database)
    with sqlite3.connect(tmp_path / "rheo.db") as left:
        assert left.execute("SELECT name FROM sqlite_master").fetchall() == []
    left.close()


def test_a_migration_that_would_orphan_rows_is_rolled_back(database: Database) -> None:
    upgrade(database)
    with database.write() as session:
        for row in ROWS:
            session.execute(text(row))
    with pytest.raises(RuntimeError, match="without their parent"), database.migrating() as connection:
        connection.exec_driver_sql("DELETE FROM conversations WHERE id = 'c1'")
    assert len(contents(database)["conversations"]) == 3


def test_migrating_leaves_the_loggers_as_they_are(database: Database) -> None:
    before = {name: logging.getLogger(name).disabled for name in ("uvicorn", "uvicorn.error", "app.factory")}
    upgrade(database)
    assert {name: logging.getLogger(name).disabled for name in before} == before
