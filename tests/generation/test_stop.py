"""Stop: exact, at any moment of an answer, from anywhere; the model works no longer for it."""

import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Event

import httpx
import pytest
from serving import HTMX, Running, Serve, Turn
from sse import Reader
from waiting import until

from app.engines.protocol import Output, Prompt, Sampling
from app.generation.queries import keep_stop, unended

WORDS = [f"w{number} " for number in range(500)]
WITHIN_S = 2.0


def steps(rheo: Running) -> int:
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    return engine.counters.steps


def active(rheo: Running) -> int:
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    return engine.counters.active


def running(rheo: Running, count: int) -> Turn:
    """An answer that has said at least so many words."""
    turn = rheo.send()
    until(lambda: len(rheo.parts.events.pieces(turn.generation_id)) >= count)
    return turn


def test_stopped_while_it_waits_it_never_begins(server: Serve) -> None:
    rheo = server(["word ", {"sleep_s": 60}], threads=1)
    first = running(rheo, 1)
    waiting = rheo.send("second")
    before = steps(rheo)
    waiting.stop(seen="0")
    answer = waiting.ended(WITHIN_S)
    assert (answer.state, answer.text) == ("stopped", "")
    assert (steps(rheo), active(rheo)) == (before, 1)
    assert first.answer.state == "running"
    assert rheo.generations(waiting.answer_id)[0].started_at is None


def test_stopped_while_the_prompt_is_read(server: Serve) -> None:
    rheo = server([{"sleep_s": 60}, "never"])
    turn = rheo.send()
    rheo.ready()
    until(lambda: active(rheo) == 1)
    turn.stop()
    answer = turn.ended(WITHIN_S)
    assert (answer.state, answer.ending, answer.text) == ("stopped", "cancelled", "")
    assert (steps(rheo), active(rheo)) == (0, 0)


@pytest.mark.parametrize("delay_ms", [2, 20, 300])
def test_b12_stopped_between_tokens_the_model_makes_two_more_at_most(server: Serve, delay_ms: int) -> None:
    rheo = server({"steps": WORDS, "delay_ms": delay_ms})
    turn = running(rheo, 3)
    turn.stop(seen="3")
    after = steps(rheo)
    answer = turn.ended(WITHIN_S)
    assert answer.text == "".join(WORDS[:3])
    assert steps(rheo) <= after + 2
    assert active(rheo) == 0
    later = rheo.send("And now?", turn.conversation_id)
    later.running()


@pytest.mark.parametrize("seen", [0, 1, 9, 20])
def test_the_text_ends_at_the_event_that_the_reader_saw(server: Serve, seen: int) -> None:
    rheo = server({"steps": [*WORDS[:20], {"sleep_s": 60}]})
    turn = running(rheo, 20)
    turn.stop(seen=str(seen))
    answer = turn.ended(WITHIN_S)
    assert answer.text == "".join(WORDS[:seen])
    assert len(answer.token_ids or ()) == seen
    assert rheo.generations(turn.answer_id)[0].answer_tokens == seen
    assert rheo.watch(turn).text == answer.text.strip()


def test_pressed_twice_the_first_press_counts(server: Serve) -> None:
    rheo = server({"steps": [*WORDS[:20], {"sleep_s": 60}]})
    turn = running(rheo, 20)
    assert [turn.stop(seen="7").status_code, turn.stop(seen="15").status_code] == [303, 303]
    assert turn.ended(WITHIN_S).text == "".join(WORDS[:7])


def test_after_the_end_nothing_changes(server: Serve) -> None:
    rheo = server({"steps": WORDS[:10]})
    turn = rheo.send()
    turn.ended()
    assert turn.stop(seen="3").status_code == 303
    assert (turn.answer.state, turn.answer.text) == ("finished", "".join(WORDS[:10]))
    assert not rheo.generations(turn.answer_id)[0].stop_asked


def test_from_another_device_it_ends_for_all_who_read(server: Serve) -> None:
    rheo = server({"steps": WORDS, "delay_ms": 20})
    turn = running(rheo, 2)
    watched = rheo.watch(turn)
    with rheo.stream(watched.connects_to or "") as stream:
        with httpx.Client(base_url=rheo.url, headers=HTMX) as other:
            answer = other.post(f"/generations/{turn.generation_id}/cancellation", data={"seen": "2"})
            assert answer.status_code == 204
        for frame in stream:
            watched.take(frame)
    assert watched.bubble["data-state"] == "stopped"
    assert watched.text == turn.ended().text.strip() == "w0 w1"


def test_a_browser_that_vanishes_after_pressing_has_stopped_it(server: Serve) -> None:
    rheo = server({"steps": WORDS, "delay_ms": 20})
    turn = running(rheo, 5)
    with closing(socket.create_connection(("127.0.0.1", rheo.port))) as connection:
        head = f"POST /generations/{turn.generation_id}/cancellation HTTP/1.1\r\nHost: localhost\r\n"
        kind = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 6\r\n\r\n"
        connection.sendall(f"{head}{kind}seen=4".encode())
    answer = turn.ended(WITHIN_S)
    assert answer.state == "stopped"
    # Where it vanished before the server could read what it had seen, all that was made is kept.
    assert answer.text.startswith("".join(WORDS[:4]))
    assert active(rheo) == 0


def test_a_stop_that_the_end_of_the_process_overtook_holds_at_the_next_start(server: Serve) -> None:
    script = {"steps": [*WORDS[:20], {"sleep_s": 60}]}
    rheo = server(script)
    turn = running(rheo, 20)
    rheo.stop()
    with rheo.parts.database.write() as session:
        keep_stop(session, turn.generation_id, 6)
    turn.server = server(script)
    answer = turn.ended(WITHIN_S)
    assert (answer.state, answer.ending, answer.text) == ("stopped", "cancelled", "".join(WORDS[:6]))
    assert turn.server.generations(turn.answer_id)[0].restarts == 0


def test_a_stop_that_is_kept_while_the_prompt_is_counted_holds(
    server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    rheo = server({"echo": True, "context_window": 1200})
    rheo.ready()
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    count = engine.encode

    def counted(prompt: Prompt) -> list[int]:
        with rheo.parts.database.write() as session:
            for found in unended(session):
                keep_stop(session, found.generation.id, None)
        return count(prompt)

    monkeypatch.setattr(engine, "encode", counted)
    turn = rheo.send()
    answer = turn.ended(WITHIN_S)
    assert (answer.state, answer.ending, answer.text) == ("stopped", "cancelled", "")
    assert rheo.generations(turn.answer_id)[0].started_at is None
    assert steps(rheo) == 0


@pytest.mark.parametrize("leaves", [False, True], ids=["stopped", "the process ends"])
def test_an_answer_whose_last_word_came_too_late_is_not_finished(
    server: Serve, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    """The model ended by itself, but between its last word and the recorder came the end."""
    script = {"steps": WORDS[:5]}
    rheo = server(script)
    rheo.ready()
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    play = engine.stream

    def overtaken(prompt: Prompt, sampling: Sampling, cancelled: Event) -> Iterator[Output]:
        outputs = list(play(prompt, sampling, cancelled))
        for number, output in enumerate(outputs):
            if number == len(outputs) - 2:
                job = next(iter(rheo.parts.runner._running.values()))
                job.cancellation.leave() if leaves else job.cancellation.asked.set()
            yield output

    monkeypatch.setattr(engine, "stream", overtaken)
    turn = rheo.send()
    if leaves:
        rheo.stop()
        turn.server = server(script)
        assert turn.ended(WITHIN_S).text == "".join(WORDS[:5])
        return
    answer = turn.ended(WITHIN_S)
    assert (answer.state, answer.ending, answer.text) == ("stopped", "cancelled", "".join(WORDS[:4]))


def test_a_reader_with_its_own_rules_sees_the_whole_end(server: Serve) -> None:
    """The last frame after a stop is complete also where a reader comes late."""
    rheo = server({"steps": [*WORDS[:20], {"sleep_s": 60}]})
    turn = running(rheo, 20)
    turn.stop(seen="5")
    turn.ended(WITHIN_S)
    reader = Reader()
    frames = reader.feed(rheo.client.get(turn.stream_path, headers=HTMX).content)
    assert len(frames) == 1
    assert "w4" in frames[0].data
    assert "w5" not in frames[0].data
