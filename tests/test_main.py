"""The command, as a real process: its start, its mistakes, its end."""

import signal
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from casefiles import model_script
from serving import Process, script_file
from waiting import until

import app
from app.__main__ import main

Prepare = Callable[..., Process]


def one_line(output: str) -> str:
    (line,) = output.splitlines()
    assert line.startswith("rheo: ")
    return line


def state_of(data_dir: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(data_dir / "rheo.db") as database:
        rows = database.execute("SELECT state, text FROM messages WHERE role = 'assistant' ORDER BY id").fetchall()
    database.close()
    return rows


def pieces_of(data_dir: Path) -> list[str]:
    with sqlite3.connect(data_dir / "rheo.db") as database:
        rows = database.execute("SELECT text FROM generation_pieces ORDER BY generation_id, number").fetchall()
    database.close()
    return [text for (text,) in rows]


def test_version_and_help_say_what_they_should(process: Prepare) -> None:
    rheo = process(fresh=True)
    assert rheo.run("--version").stdout.strip() == f"rheo {app.__version__}"
    shown = rheo.run("--help")
    assert shown.returncode == 0
    for name in ("serve", "migrate", "--data-dir", "--port", "RHEO_PASSWORD"):
        assert name in shown.stdout
    assert not rheo.data_dir.exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PROT": "1"}, "did you mean RHEO_PORT"),
        ({"PORT": "x"}, "RHEO_PORT"),
        ({"HOST": "0.0.0.0"}, "RHEO_PASSWORD"),
        ({"DATABASE_URL": "mysql://x"}, "mysql"),
        ({"DATA_DIR": "/dev/null/data"}, "data folder"),
    ],
    ids=str,
)
def test_a_setting_that_can_not_be_is_told_in_one_line(
    settings: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"RHEO_{name}", value)
    assert main([]) == 1
    assert words in one_line(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"SCRIPT": "/nowhere/script.json"}, "RHEO_SCRIPT"),
        ({"DATABASE_URL": "sqlite:////nowhere/at/all.db"}, "can't be opened"),
    ],
    ids=str,
)
def test_a_start_that_can_not_be_is_told_in_one_line(process: Prepare, settings: dict[str, str], words: str) -> None:
    done = process().run(**settings)
    assert done.returncode == 1
    assert words in one_line(done.stderr)


def test_beyond_this_machine_a_password_or_a_word_is_enough(process: Prepare) -> None:
    for settings in ({"PASSWORD": "x"}, {"OPEN": "1"}):
        rheo = process(HOST="0.0.0.0", HOSTS="127.0.0.1", **settings)
        rheo.end(rheo.start())


def test_the_database_of_a_newer_rheo_stops_the_start(process: Prepare) -> None:
    rheo = process()
    with sqlite3.connect(rheo.data_dir / "rheo.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    done = rheo.run("serve")
    assert done.returncode == 1
    assert "9999" in one_line(done.stderr)


def test_migrate_makes_the_data_folder_and_says_what_it_did(process: Prepare) -> None:
    rheo = process(fresh=True)
    assert "brought up to date" in rheo.run("migrate").stdout
    assert "is up to date" in rheo.run("migrate").stdout
    assert stat.S_IMODE(rheo.data_dir.stat().st_mode) == 0o700


def test_a_second_process_on_the_same_data_ends_with_one_line(process: Prepare) -> None:
    rheo = process()
    first = rheo.start()
    done = rheo.run("serve", PORT="0")
    assert done.returncode == 1
    assert "Another Rheo" in one_line(done.stderr)
    assert httpx.get(f"{rheo.url}/health").status_code == 200
    rheo.end(first)
    rheo.end(rheo.start())  # the lock went with the process


def test_a20_a_signal_ends_it_soon_with_streams_open_and_all_go_on(process: Prepare, tmp_path: Path) -> None:
    script = model_script("A20-long")
    rheo = process(SCRIPT=str(script_file(tmp_path, {**script, "delay_ms": 20})))
    served = rheo.start()
    streams: list[str] = []
    for number in range(3):
        page = httpx.post(
            f"{rheo.url}/conversations", data={"text": f"Question {number}"}, follow_redirects=True
        ).text
        streams.append(page.partition('hx-sse:connect="')[2].partition('"')[0])
    with httpx.Client(base_url=rheo.url) as client:
        opened = [client.stream("GET", address) for address in streams]
        for stream in opened:
            stream.__enter__()
        until(lambda: len(pieces_of(rheo.data_dir)) > 15)
        assert rheo.end(served) < 10
        for stream in opened:
            stream.__exit__(None, None, None)
    assert served.returncode in (0, -signal.SIGTERM)
    left = state_of(rheo.data_dir)
    assert [state for state, _ in left] == ["running"] * 3
    assert all("w0 " in "".join(pieces_of(rheo.data_dir)) for _ in left)
    again = rheo.start()
    until(lambda: {state for state, _ in state_of(rheo.data_dir)} == {"finished"}, 20)
    assert [text for _, text in state_of(rheo.data_dir)] == ["".join(script["steps"])] * 3
    rheo.end(again)


def test_a19_a_killed_process_loses_nothing_that_was_shown(process: Prepare, tmp_path: Path) -> None:
    script = model_script("A20-long")
    rheo = process(SCRIPT=str(script_file(tmp_path, {**script, "delay_ms": 20})))
    served = rheo.start()
    httpx.post(f"{rheo.url}/conversations", data={"text": "Hello"})
    until(lambda: len(pieces_of(rheo.data_dir)) > 10)
    rheo.end(served, signal.SIGKILL)
    shown = "".join(pieces_of(rheo.data_dir))
    assert shown
    again = rheo.start()
    until(lambda: len("".join(pieces_of(rheo.data_dir))) > len(shown))
    assert "".join(pieces_of(rheo.data_dir)).startswith(shown)
    rheo.end(again, signal.SIGKILL)
    third = rheo.start()  # once more would be once too often
    until(lambda: state_of(rheo.data_dir)[0][0] == "interrupted")
    assert state_of(rheo.data_dir)[0][1].startswith(shown)
    rheo.end(third)


def test_the_log_is_in_the_data_folder_and_holds_no_message(process: Prepare, tmp_path: Path) -> None:
    rheo = process(SCRIPT=str(script_file(tmp_path, ["a secret answer", {"raise": "broken"}])))
    served = rheo.start()
    httpx.post(f"{rheo.url}/conversations", data={"text": "a secret question"})
    until(lambda: state_of(rheo.data_dir)[0][0] == "failed")
    rheo.end(served)
    log = (rheo.data_dir / "logs" / "rheo.log").read_text()
    assert "broken" in log
    assert "secret" not in log


def test_a_port_that_is_taken_stops_the_start(process: Prepare, tmp_path: Path) -> None:
    rheo = process()
    served = rheo.start()
    done = rheo.run("serve", DATA_DIR=str(tmp_path / "other"))
    assert done.returncode != 0
    assert "address already in use" in done.stderr
    rheo.end(served)


def test_the_interrupt_key_ends_it_quietly(process: Prepare) -> None:
    rheo = process()
    served = rheo.start()
    served.send_signal(signal.SIGINT)
    output = served.communicate(timeout=10)[0]
    assert "Traceback" not in output
