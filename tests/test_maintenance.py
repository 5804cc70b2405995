"""Backup, restore and check, as commands: nothing is lost, nothing half is left, and what is wrong is told."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from serving import ROOT, Serve, serving
from test_schema import ROWS, migrate
from waiting import until

from app.__main__ import main
from app.data_folder import held
from app.database import SCHEMA, Database
from app.settings import Settings

WORDS = [f"w{number} " for number in range(60)]


@dataclass
class Kept:
    """A data folder, and the commands run on it within this process."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def database(self) -> Path:
        return self.folder / "rheo.db"

    def run(self, *arguments: str | Path) -> tuple[int, str, str]:
        """A command's exit status, what it said, and what it complained of."""
        status = main([str(one) for one in arguments] + ["--data-dir", str(self.folder), "--lock-s", "0.1"])
        said = self.capsys.readouterr()
        return status, said.out, said.err

    def refuses(self, *arguments: str | Path) -> str:
        """The one line of a command that can't be done."""
        status, said, complaint = self.run(*arguments)
        assert (status, said) == (1, "")
        (line,) = complaint.splitlines()
        return line.removeprefix("rheo: ")

    def change(self, *statements: str) -> None:
        """Change rows behind Rheo's back, whatever the rules."""
        change(self.database, *statements)

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} - {"rheo.lock"}


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def texts(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT id, text FROM messages ORDER BY id").fetchall()


@pytest.fixture
def kept(tmp_path: Path, empty_database: Path, capsys: pytest.CaptureFixture[str]) -> Kept:
    """A database of three conversations with ten messages each."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    shutil.copy(empty_database, folder / "rheo.db")
    made = Kept(folder, capsys)
    made.change(*(row for row in ROWS if "generation_pieces" not in row))
    return made


@pytest.fixture
def backup(kept: Kept, tmp_path: Path) -> Path:
    path = tmp_path / "backup.db"
    assert kept.run("backup", path)[0] == 0
    return path


@pytest.fixture
def far(kept: Kept) -> Iterator[None]:
    """Whatever happens, the database holds what it held and nothing half lies beside it."""
    before, names = texts(kept.database), kept.names
    yield
    assert texts(kept.database) == before
    assert kept.names == names


def test_a_backup_is_one_private_file_that_holds_everything(kept: Kept, tmp_path: Path) -> None:
    path = tmp_path / "my backup?.db"
    status, said, _ = kept.run("backup", path)
    assert status == 0
    assert "3 conversations, 30 messages" in said
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert texts(path) == texts(kept.database)
    assert {found.name for found in tmp_path.iterdir()} == {"data", path.name}
    status, said, _ = kept.run("check", path)
    assert status == 0
    assert "is whole" in said


def test_a_backup_is_made_while_answers_are_made_and_they_go_on_from_it(
    server: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = {"steps": WORDS, "delay_ms": 10}
    rheo = server(script)
    turn = rheo.send()
    turn.running("w3 ")
    kept = Kept(rheo.settings.data_dir, capsys)
    path = tmp_path / "backup.db"
    assert kept.run("backup", path)[0] == 0
    assert kept.run("check")[0] == 0
    assert kept.run("check", path)[0] == 0
    assert turn.ended().text == "".join(WORDS)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT state FROM messages WHERE id = ?", (turn.answer_id,)).fetchone() == (
            "running",
        )
    with serving(tmp_path / "restored", path, script) as again:
        until(lambda: not again.message(turn.answer_id).active)
        assert again.message(turn.answer_id).text == "".join(WORDS)


def test_nothing_is_restored_while_rheo_runs(kept: Kept, backup: Path) -> None:
    with held(Settings(data_dir=kept.folder)):
        assert "Another Rheo" in kept.refuses("restore", backup)


def test_a_backup_is_of_one_moment_and_ends_whoever_writes(kept: Kept, tmp_path: Path) -> None:
    kept.change(f"UPDATE messages SET text = '{'long ' * 40_000}'")  # so that the copy takes some steps
    kept.change("PRAGMA journal_mode=WAL")
    begun, ended = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(kept.database, timeout=5)) as connection:
            number = 0
            while not ended.is_set():
                number += 1
                # One transaction: a copy that holds one without the other is of no moment.
                connection.execute("UPDATE conversations SET title = ?", (str(number),))
                connection.execute("UPDATE messages SET error = ?", (str(number),))
                connection.commit()
                begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait(10)
    try:
        assert kept.run("backup", tmp_path / "backup.db")[0] == 0
    finally:
        ended.set()
        writer.join()
    with closing(sqlite3.connect(tmp_path / "backup.db")) as connection:
        one = "SELECT title FROM conversations UNION SELECT error FROM messages"
        assert len(connection.execute(one).fetchall()) == 1


def test_progress_is_shown_on_a_terminal_only(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.run("backup", tmp_path / "one.db")[2] == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert "100 %" in kept.run("backup", tmp_path / "two.db")[2]


@pytest.mark.usefixtures("far")
def test_a_backup_takes_no_place_but_that_of_a_backup(kept: Kept, tmp_path: Path, backup: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader")
    assert "needs the name of a file" in kept.refuses("backup")
    assert "is a folder" in kept.refuses("backup", tmp_path)
    assert "database itself" in kept.refuses("backup", kept.database)
    assert "no backup of Rheo" in kept.refuses("backup", letter)
    assert "can't be written" in kept.refuses("backup", tmp_path / "nowhere" / "backup.db")
    assert letter.read_text() == "Dear reader"
    assert kept.run("backup", backup)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"data", "letter.txt", "backup.db"}


def test_there_is_no_backup_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = Kept(tmp_path / "data", capsys)
    assert "nothing to back up" in kept.refuses("backup", tmp_path / "backup.db")
    assert "no database" in kept.refuses("check")
    assert "takes nothing more" in kept.refuses("serve", tmp_path / "backup.db")
    assert not list(tmp_path.glob("*.db"))


def test_a_full_disk_leaves_the_backup_that_was_there(
    kept: Kept, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backup.read_bytes()
    kept.change("UPDATE messages SET text = text || ' and more'")
    # No file of more than 20 kB can be written.
    command = f'ulimit -f 20; exec "{sys.executable}" -m app backup "{backup}" --data-dir "{kept.folder}"'
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "can't be written" in line
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=1000))
    assert "no room" in kept.refuses("backup", backup)
    assert backup.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"data", "backup.db"}


def damage(path: Path) -> None:
    """Write nonsense over pages in the middle, as a failing disk does."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for page in range(2, size // 4096 - 1):
            file.seek(page * 4096)
            file.write(b"\xff" * 64)


def test_what_is_damaged_does_not_take_the_place_of_a_good_backup(kept: Kept, backup: Path) -> None:
    before = backup.read_bytes()
    damage(kept.database)
    status, said, _ = kept.run("check")
    assert status == 1
    assert "not whole" in said
    assert "damaged" in kept.refuses("backup", backup)
    assert backup.read_bytes() == before
    # And that is what the backup was for.
    assert kept.run("restore", backup)[0] == 0
    assert len(texts(kept.database)) == 30
    assert kept.run("check")[0] == 0


def test_restoring_puts_back_what_was_and_keeps_what_is(kept: Kept, backup: Path) -> None:
    was = texts(kept.database)
    kept.change("PRAGMA journal_mode=WAL", "UPDATE messages SET text = 'newer'", "DELETE FROM generations")
    newer = texts(kept.database)
    status, said, _ = kept.run("restore", backup)
    assert status == 0
    assert "3 conversations, 30 messages" in said
    assert texts(kept.database) == was
    (aside,) = [kept.folder / name for name in kept.names if name.startswith("rheo-before-")]
    assert str(aside) in said
    assert texts(aside) == newer
    assert stat.S_IMODE(kept.database.stat().st_mode) == 0o600
    # What was kept is a backup like any other.
    assert kept.run("restore", aside)[0] == 0
    assert texts(kept.database) == newer


def test_what_a_killed_rheo_left_in_its_log_is_kept_too(kept: Kept, backup: Path) -> None:
    with closing(sqlite3.connect(kept.database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE messages SET text = 'only in the log'")
        connection.commit()
        for name in ("rheo.db", "rheo.db-wal"):  # as they are when nobody could tidy up
            shutil.copy(kept.folder / name, kept.folder / f"left-{name}")
    for name in ("rheo.db", "rheo.db-wal"):
        (kept.folder / f"left-{name}").replace(kept.folder / name)
    assert kept.run("restore", backup)[0] == 0
    (aside,) = [kept.folder / name for name in kept.names if name.startswith("rheo-before-")]
    assert {text for _, text in texts(aside)} == {"only in the log"}
    assert texts(kept.database) == texts(backup)
    assert kept.run("check")[0] == 0


def test_a_new_machine_is_restored_to(backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fresh = Kept(tmp_path / "elsewhere", capsys)
    status, said, _ = fresh.run("restore", backup)
    assert status == 0
    assert "before" not in said
    assert fresh.names == {"rheo.db"}
    assert texts(fresh.database) == texts(backup)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.unlink(), "There is no file"),
        (lambda path: path.write_text("Dear reader"), "no backup of Rheo"),
        (lambda path: path.write_bytes(b""), "no backup of Rheo"),
        (lambda path: (path.unlink(), change(path, "CREATE TABLE messages (id)")), "no backup of Rheo"),
        (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), "damaged|no backup"),
        (damage, "damaged|no backup"),
        (lambda path: change(path, "DELETE FROM messages WHERE id = 'c1m0'"), "damaged .*1 rows of messages"),
        (lambda path: change(path, "UPDATE alembic_version SET version_num = '9999'"), "9999.*newer"),
    ],
    ids=["gone", "a letter", "empty", "of another program", "half", "broken", "orphans", "newer"],
)
@pytest.mark.usefixtures("far")
def test_what_can_not_be_restored_changes_nothing(
    kept: Kept, backup: Path, spoil: Callable[[Path], object], words: str
) -> None:
    spoil(backup)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(kept.refuses("restore", backup))
    assert "database itself" in kept.refuses("restore", kept.database)


def test_a_restoring_that_is_cut_off_leaves_a_database_at_every_step(
    kept: Kept, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.change("UPDATE messages SET text = 'newer'")
    newer = texts(kept.database)

    def cut_off(made: Path, target: Path) -> None:
        assert made.parent == target.parent
        assert texts(target) == newer  # until the very last step
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", cut_off)
    assert kept.run("restore", backup)[0] == 130
    monkeypatch.undo()
    assert texts(kept.database) == newer
    (kept.folder / ".rheo.db.killed.partial").write_text("left by one that was killed")
    assert kept.run("restore", backup)[0] == 0
    assert not [name for name in kept.names if "partial" in name]


def test_e31_a_backup_of_an_older_schema_is_brought_up_to_date(kept: Kept, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old = Database(f"sqlite:///{path}")
    migrate(old, "0001")
    old.close()
    change(path, *ROWS)
    before = path.read_bytes()
    assert "schema 0001" in kept.run("check", path)[1]
    assert kept.run("restore", path)[0] == 0
    assert f"schema {SCHEMA}" in kept.run("check")[1]
    assert texts(kept.database) == texts(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["DELETE FROM messages WHERE id = 'c1m4'"], "1 rows of messages belong to rows of messages"),
        (["UPDATE messages SET parent_id = 'c2m0' WHERE id = 'c1m4'"], "1 messages follow one of another"),
        (["UPDATE messages SET parent_id = 'c1m7' WHERE id = 'c1m6'"], "4 messages follow each other in a ring"),
        (["UPDATE messages SET state = 'running' WHERE id = 'c1m1'"], "1 answers are to come"),
        (["UPDATE alembic_version SET version_num = '9999'"], "9999, of a newer Rheo"),
        (["DROP TABLE generations"], "no database of Rheo"),
        (
            ["DELETE FROM search_changes WHERE subject IN ('c1m4', 'c2')"],
            "2 messages and titles are not found by search",
        ),
        (["INSERT INTO search_entries (place, subject) VALUES (1, 'gone')"], "1 places of the search index"),
    ],
    ids=["orphan", "stranger", "ring", "forgotten", "newer", "incomplete", "not found", "nowhere"],
)
def test_check_tells_what_is_wrong_and_its_status_says_so(kept: Kept, statements: list[str], words: str) -> None:
    assert kept.run("check")[0] == 0
    kept.change(*statements)
    before = kept.database.read_bytes()
    status, said, _ = kept.run("check")
    assert status == 1
    assert words in said
    assert kept.database.read_bytes() == before


def test_a_full_text_index_is_compared_with_the_texts_when_no_writer_has_to_wait(kept: Kept) -> None:
    kept.change(
        "CREATE VIRTUAL TABLE words USING fts5(text, content=messages, content_rowid=rowid)",
        "INSERT INTO words (words) VALUES ('rebuild')",
    )
    assert kept.run("check")[0] == 0
    kept.change("UPDATE messages SET text = 'another' WHERE id = 'c1m4'")
    status, said, _ = kept.run("check")
    assert status == 1
    assert "the index words" in said
    with held(Settings(data_dir=kept.folder)):
        status, said, _ = kept.run("check")
    assert status == 0
    assert "Not compared" in said


def test_rows_without_a_parent_are_backed_up_and_told_but_not_restored(kept: Kept, tmp_path: Path) -> None:
    kept.change("DELETE FROM messages WHERE id = 'c1m4'", "UPDATE messages SET state = 'queued' WHERE id = 'c2m9'")
    kept.change("DELETE FROM generations")
    status, said, _ = kept.run("backup", tmp_path / "backup.db")
    assert status == 0
    assert "Noticed: 1 rows of messages belong to rows of messages that are not there" in said
    assert "belong to rows" in kept.refuses("restore", tmp_path / "backup.db")
    change(tmp_path / "backup.db", "DELETE FROM messages WHERE id = 'c1m5'", "UPDATE messages SET parent_id = NULL")
    status, said, _ = kept.run("restore", tmp_path / "backup.db")
    assert status == 0
    assert "Noticed: 1 answers are to come" in said


@pytest.mark.parametrize("address", ["sqlite:///{}", "sqlite:///file:{}?mode=rw&uri=true"])
def test_the_database_may_be_elsewhere(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    elsewhere = tmp_path / "else where.db"
    kept.database.rename(elsewhere)
    monkeypatch.setenv(
        "RHEO_DATABASE_URL", address.format(str(elsewhere).replace(" ", "%20" if "file:" in address else " "))
    )
    assert "30 messages" in kept.run("check")[1]
    assert kept.run("backup", tmp_path / "backup.db")[0] == 0
    assert kept.run("restore", tmp_path / "backup.db")[0] == 0
    assert len(list(tmp_path.glob("else where-before-*.db"))) == 1


def test_a_database_in_memory_has_no_file(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEO_DATABASE_URL", "sqlite://")
    assert "in memory" in kept.refuses("check")
