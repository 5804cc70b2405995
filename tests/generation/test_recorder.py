"""What is kept of an answer when saving fails."""

import logging

import pytest
from serving import HOLD, Running, Serve
from sqlalchemy import text
from waiting import until

from app.generation.plain_text import PlainText


def broken(rheo: Running, operation: str, table: str) -> None:
    """Have the table refuse, as a full disk would."""
    with rheo.parts.database.write() as session:
        full = "BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        session.execute(text(f"CREATE TRIGGER full BEFORE {operation} ON {table} {full}"))


def mended(rheo: Running) -> None:
    with rheo.parts.database.write() as session:
        session.execute(text("DROP TRIGGER full"))


def test_an_end_that_can_not_be_saved_is_tried_again_and_nothing_expires_meanwhile(
    server: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    rheo = server(["one", HOLD, " two"], expiry_s=0.05, ping_s=0.1)
    turn = rheo.send()
    turn.running("one")
    broken(rheo, "UPDATE", "messages")
    rheo.go_on()
    with caplog.at_level(logging.ERROR), rheo.stream(turn.stream_path) as stream:
        until(lambda: "could not be saved" in caplog.text)
        until(lambda: turn.said() == "one two")
        assert turn.answer.state == "running"
        mended(rheo)
        frames = list(stream)
    *_, last, done = frames
    assert 'data-state="finished"' in last.data
    assert done.data == "ended"
    assert turn.ended().text == "one two"
    assert "one two" not in caplog.text


def test_a_server_that_ends_while_it_can_not_save_leaves_the_answer_to_the_next(
    server: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    rheo = server(["one", HOLD, " two"])
    turn = rheo.send()
    turn.running("one")
    broken(rheo, "UPDATE", "messages")
    rheo.go_on()
    until(lambda: "could not be saved" in caplog.text)
    rheo.stop()
    mended(rheo)
    again = server(["one", " two"])
    answer = until(lambda: None if again.message(turn.answer_id).active else again.message(turn.answer_id))
    assert (answer.state, answer.text) == ("finished", "one two")


def test_pieces_that_can_not_be_saved_fail_the_answer_with_its_text(
    server: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    rheo = server(["one", HOLD, " two", *[{"sleep_s": 0.1}, " more"] * 50, {"sleep_s": 60}])
    turn = rheo.send()
    turn.running("one")
    broken(rheo, "INSERT", "generation_pieces")
    rheo.go_on()
    answer = turn.ended()
    assert answer.state == "failed"
    assert answer.text.startswith("one")
    assert "disk is full" in (answer.error or "")
    mended(rheo)
    rheo.send("next").running("one two")


@pytest.mark.parametrize(
    ("pieces", "plain"),
    [
        (["a\r\nb"], "a\nb"),
        (["a\r", "\nb"], "a\nb"),
        (["a\r", "", "\nb"], "a\nb"),
        (["a\r", "b\r", "\r\n"], "a\nb\n\n"),
        (["\n", "\n"], "\n\n"),
        (["a\0"], "a\ufffd"),
        (["\ud83d"], "?"),
    ],
)
def test_plain_text_is_the_same_however_it_is_cut(pieces: list[str], plain: str) -> None:
    one_by_one = PlainText()
    assert "".join(one_by_one.feed(piece) for piece in pieces) == plain
    assert PlainText().feed("".join(pieces)) == plain
