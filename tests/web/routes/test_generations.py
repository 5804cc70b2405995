"""The stream of an answer as a browser reads it, and stopping."""

import random
import statistics
import time
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from casefiles import case_file, model_script
from dom import parse, shape
from serving import HOLD, HTMX, Running, Serve, Turn, Watched
from sse import Message as Frame
from sse import Reader
from waiting import until

FRAMING = {case["id"]: case for case in case_file("sse-newlines.json")["cases"]}
WORDS = ["word0", *(f" word{number}" for number in range(1, 30))]
SCRIPT = LASTING = [*WORDS, {"sleep_s": 60}]


def framed(server: Serve, case_id: str, save_s: float) -> tuple[Watched, Turn]:
    return exact(server({"steps": FRAMING[case_id]["pieces"], "delay_ms": 30}, save_s=save_s))


def exact(rheo: Running) -> tuple[Watched, Turn]:
    """An answer that was read to its end. What was streamed is what a reload shows: nothing came anew, or differs."""
    watched, turn = rheo.watch_all()
    assert not watched.replaced
    assert watched.body == rheo.watch(turn).body
    return watched, turn


@pytest.fixture(params=[0.001, 0.2], ids=["piece by piece", "many in one frame"])
def save_s(request: pytest.FixtureRequest) -> float:
    value: float = request.param
    return value


@pytest.fixture
def lasting(server: Serve) -> Turn:
    """An answer that has said thirty words, and is not at its end."""
    rheo = server(LASTING)
    turn = rheo.send()
    turn.running(WORDS[-1])
    return turn


def test_a01_line_ends_and_empty_pieces_arrive_as_they_were_made(server: Serve, save_s: float) -> None:
    _, turn = framed(server, "A01", save_s)
    assert turn.answer.text == FRAMING["A01"]["joined"]


def test_a03_no_space_at_the_edge_of_a_piece_is_lost(server: Serve, save_s: float) -> None:
    watched, turn = framed(server, "A03", save_s)
    assert watched.text == turn.answer.text.strip() == FRAMING["A03"]["joined"].strip()


def test_a04_a_lone_carriage_return_forges_no_event(server: Serve, save_s: float) -> None:
    watched, turn = framed(server, "A04", save_s)
    assert {(frame.event, frame.data) for frame in watched.seen if frame.event != "message"} == {("done", "ended")}
    assert turn.answer.text == FRAMING["A04"]["joined_after_cr_to_lf"]
    assert watched.text.split() == turn.answer.text.split()


def test_a_carriage_return_and_its_line_feed_in_two_pieces_are_one_line_end(server: Serve, save_s: float) -> None:
    rheo = server({"steps": ["one\r", "\ntwo\r", "three\r\n", "\nfour"], "delay_ms": 30}, save_s=save_s)
    _, turn = exact(rheo)
    assert turn.answer.text == "one\ntwo\nthree\n\nfour"


def test_e32_a_nul_from_the_model_is_shown_and_kept_as_a_replacement_character(server: Serve) -> None:
    rheo = server(["a\0b"])
    turn = rheo.send()
    watched = rheo.watch(turn).to_the_end()
    assert turn.answer.text == watched.text == "a\ufffdb"


def test_a06_words_of_the_protocol_are_only_text(server: Serve, save_s: float) -> None:
    watched, turn = framed(server, "A06", save_s)
    assert {(frame.event, frame.data) for frame in watched.seen if frame.event != "message"} == {("done", "ended")}
    assert watched.text.split() == FRAMING["A06"]["joined"].split()
    assert turn.answer.text == FRAMING["A06"]["joined"]


def test_a07_the_last_frames_bring_what_stands_under_the_saved_answer_and_close_the_stream(server: Serve) -> None:
    rheo = server({"steps": ["all", " said"], "delay_ms": 30})
    watched, turn = exact(rheo)
    *_, last, done = watched.seen
    foot = parse(last.data).one("footer")
    assert (foot["data-state"], foot["data-ending"]) == ("finished", "stop")
    assert "2 tokens" in foot.test_id("message-figures").text
    assert (done.event, done.data) == ("done", "ended")
    assert rheo.watch(turn).connects_to is None
    assert watched.text == "all said"


def test_the_streamed_and_the_reloaded_bubble_are_the_same(server: Serve) -> None:
    rheo = server({"steps": ["# Title\n", "some *te", "xt* & `<b>`", "\n\n- one\n- two\n"], "delay_ms": 30})
    watched, turn = exact(rheo)
    reloaded = rheo.watch(turn)
    assert watched.bubble.attributes == reloaded.bubble.attributes
    assert shape(watched.bubble) == shape(reloaded.bubble)


def test_a_stop_that_cut_before_what_was_sent_replaces_the_body(server: Serve) -> None:
    rheo = server({"steps": [f"w{number} " for number in range(500)], "delay_ms": 10})
    turn = rheo.send()
    turn.running("w9 ")
    watched = rheo.watch(turn)
    with rheo.stream(watched.connects_to or "") as stream:
        turn.stop(seen="5")
        for frame in stream:
            watched.take(frame)
    assert watched.replaced
    assert watched.text == "w0 w1 w2 w3 w4"
    assert watched.bubble["data-state"] == "stopped"


def test_a08_a_reader_that_comes_back_after_the_end_gets_the_whole_bubble_once(server: Serve) -> None:
    rheo = server({"steps": WORDS, "delay_ms": 10})
    turn = rheo.send()
    watched = rheo.watch(turn).read(frames=1)
    turn.ended()
    for last_id in (watched.last_id, None, "999999", "nonsense"):
        frames = rheo.frames(turn.stream_path, last_id)
        assert len(frames) == 1
        assert parse(frames[0].data).one("article")["data-state"] == "finished"
    assert watched.to_the_end().text == "".join(WORDS)


def test_a11_nothing_on_the_way_may_hold_a_stream_back(lasting: Turn) -> None:
    with lasting.server.stream(lasting.stream_path) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "no-store" in stream.headers["cache-control"]
        assert stream.headers["x-accel-buffering"] == "no"
        assert "content-length" not in stream.headers
        assert "content-encoding" not in stream.headers


def test_a_held_answer_can_be_stopped_and_ends_with_its_server(server: Serve) -> None:
    rheo = server(["first ", HOLD, "last"])
    stopped, left = rheo.send(), rheo.send()
    stopped.running("first")
    left.running("first")
    stopped.stop()
    assert (stopped.ended().state, stopped.answer.text) == ("stopped", "first ")
    rheo.stop()
    assert left.answer.active


def test_a16_a_silent_stream_says_that_it_lives_without_being_seen(server: Serve) -> None:
    rheo = server(["first ", HOLD, "last"], ping_s=0.05)
    turn = rheo.send()
    turn.running("first")
    with rheo.stream(turn.stream_path) as stream:
        frames: list[Frame] = []
        began = time.monotonic()
        while len(stream.reader.comments) < 5:
            frames += stream.more()
        assert 0.15 < time.monotonic() - began < 1  # about as often as it was told to
        rheo.go_on()
        frames += list(stream)
    assert [frame.id for frame in frames[:2]] == ["1", "2"]
    assert turn.answer.text == "first last"


def test_a_reader_goes_on_from_any_event_and_sees_exactly_the_whole(server: Serve) -> None:
    rheo = server({"steps": [HOLD, *LASTING], "delay_ms": 30}, pace_s=0.005)
    turn = rheo.send()
    first = rheo.watch(turn)
    rheo.go_on()
    seen: dict[str, list[object]] = {}
    while first.text != "".join(WORDS):
        first.read(frames=1)
        seen[first.last_id or ""] = first.body
    assert len(seen) > 10
    for number in range(len(WORDS) + 1):
        late = rheo.watch(turn)
        late.last_id = str(number)
        goes_on = str(number) in seen or number in (0, len(WORDS))
        with rheo.stream(late.connects_to or "", late.last_id) as stream:
            if number < len(WORDS):
                frame = next(iter(stream))
                assert ("<article" in frame.data) is not goes_on
                if not goes_on:
                    late.take(frame)
                    assert late.text == "".join(WORDS)


def test_a_page_that_another_screen_showed_is_not_gone_on_with(server: Serve) -> None:
    rheo = server(LASTING)
    turn = rheo.send()
    turn.running(WORDS[-1])
    watched = rheo.watch(turn)
    path = str(httpx.URL(turn.stream_path, params={"after": "30", "screen": "0f0f0f0f"}))
    (frame,) = rheo.frames(path)
    watched.take(frame)
    assert watched.replaced
    assert "screen=0f0f0f0f" not in (watched.connects_to or "")
    assert watched.text == "".join(WORDS)


@pytest.fixture(scope="module")
def shared_lasting(shared: Running) -> Turn:
    """The same for tests that only read."""
    turn = shared.send()
    turn.running(WORDS[-1])
    return turn


@pytest.mark.parametrize("place", ["999", "31", "-1", "1.5", "nonsense", "１", "1e3", "9" * 40])
@pytest.mark.parametrize("by", ["Last-Event-ID", "after"])
def test_a_place_that_can_not_be_gone_on_from_gives_the_whole_bubble_once(
    shared_lasting: Turn, place: str, by: str
) -> None:
    turn, rheo = shared_lasting, shared_lasting.server
    watched = rheo.watch(turn)
    path = turn.stream_path if by == "Last-Event-ID" else str(httpx.URL(turn.stream_path, params={"after": place}))
    headers = {b"Last-Event-ID": place.encode()} if by == "Last-Event-ID" else {}
    response = rheo.client.get(path, headers={**HTMX, **headers})
    frames = Reader().feed(response.content)
    assert len(frames) == 1
    watched.take(frames[0])
    assert watched.bubble["data-state"] == "running"
    assert watched.text == "".join(WORDS)
    assert parse_qs(urlsplit(watched.connects_to or "").query)["after"] == ["30"]


def test_a_place_above_all_events_of_a_waiting_answer_changes_no_numbers(server: Serve) -> None:
    rheo = server([HOLD, "one ", "two"])
    turn = rheo.send()
    assert len(rheo.frames(f"{turn.stream_path}?after=1000")) == 1
    rheo.go_on()
    watched = rheo.watch(turn).to_the_end()
    assert watched.text == "one two"
    assert all(int(frame.id) <= 3 for frame in watched.seen if frame.id)


def test_a_stream_that_is_cut_at_fifty_places_loses_and_doubles_nothing(server: Serve) -> None:
    rheo = server(
        {"steps": ["0", *(f" {number}" for number in range(1, 900))], "delay_ms": 2}, save_s=0.004, pace_s=0.004
    )
    turn = rheo.send()
    watched = rheo.watch(turn)
    places = random.Random(20)
    for _ in range(50):
        reader = Reader(watched.last_id or "")
        left = places.randint(1, 700)
        with rheo.client.stream("GET", turn.stream_path, headers={"Last-Event-ID": watched.last_id or "0"}) as cut:
            for chunk in cut.iter_raw():
                for frame in reader.feed(chunk[:left]):
                    watched.take(frame)
                left -= len(chunk)
                if left <= 0:
                    break
    watched.to_the_end()
    assert watched.text.split() == turn.answer.text.split()
    assert turn.answer.text == " ".join(str(number) for number in range(900))


def test_two_readers_at_once_read_the_same(server: Serve) -> None:
    rheo = server({"steps": LASTING, "delay_ms": 5})
    turn = rheo.send()
    first, second = rheo.watch(turn), rheo.watch(turn)
    while first.text != "".join(WORDS):
        first.read(frames=1)
    while second.text != first.text:
        second.read(frames=1)
    assert len(rheo.generations()) == 1


def test_a_reader_that_leaves_stops_nothing(server: Serve) -> None:
    rheo = server({"steps": WORDS, "delay_ms": 5})
    turn = rheo.send()
    with rheo.stream(turn.stream_path) as stream:
        next(iter(stream))
    assert turn.ended().text == "".join(WORDS)


def test_b01_a_fault_keeps_the_text_and_says_what_went_wrong(server: Serve) -> None:
    script = model_script("B01")
    rheo = server(script)
    rheo.ready()
    began = time.monotonic()
    turn = rheo.send()
    watched = rheo.watch(turn).to_the_end()
    assert time.monotonic() - began < 2
    assert turn.answer.text == script["stored"]
    assert watched.bubble["data-state"] == "failed"
    assert watched.bubble["data-ending"] == "error"
    assert watched.text == script["stored"].strip()
    assert "engine fault for test" in watched.bubble.test_id("message-error").text
    after = rheo.send("And now?", turn.conversation_id).ended(2)
    assert after.text == script["stored"]


@pytest.mark.alone
def test_b03_a_text_without_spaces_comes_steadily(server: Serve) -> None:
    script = model_script("B03")
    rheo = server(script)
    rheo.ready()
    turn = rheo.send()
    watched = rheo.watch(turn)
    moments = [time.monotonic()]
    with rheo.stream(watched.connects_to or "") as stream:
        for frame in stream:
            moments.append(time.monotonic())
            watched.take(frame)
    gaps = [later - sooner for sooner, later in pairwise(moments)]
    assert max(gaps) < script["longest_gap_s"]
    assert len(moments) > len(script["steps"]) // 2
    assert watched.text == turn.answer.text == "".join(script["steps"])


def test_b12_stop_ends_the_model_within_two_steps_and_cuts_where_the_reader_was(server: Serve) -> None:
    rheo = server({"steps": [f"w{number} " for number in range(500)], "delay_ms": 10})
    turn = rheo.send()
    turn.running("w19 ")
    turn.stop(seen="15")
    engine = rheo.parts.catalog.loaded()
    assert engine is not None
    at_stop = engine.counters.steps
    answer = turn.ended(1)
    assert engine.counters.steps <= at_stop + 2
    assert engine.counters.active == 0
    assert answer.text == "".join(f"w{number} " for number in range(15))
    assert (answer.state, answer.ending) == ("stopped", "cancelled")
    assert rheo.watch(turn).bubble["data-state"] == "stopped"


@pytest.mark.parametrize("seen", ["", "x", "-3", "100000", "9" * 30])
def test_a_stop_without_a_true_place_keeps_what_the_server_had(server: Serve, seen: str) -> None:
    rheo = server(LASTING)
    turn = rheo.send()
    turn.running(WORDS[-1])
    assert turn.stop(seen=seen).status_code == 303
    assert turn.ended(1).text == "".join(WORDS)


def test_the_ending_of_a_stopped_answer_comes_through_its_stream(lasting: Turn) -> None:
    rheo = lasting.server
    watched = rheo.watch(lasting)
    with rheo.stream(watched.connects_to or "") as stream:
        answer = rheo.client.post(f"/generations/{lasting.generation_id}/cancellation", headers=HTMX)
        assert answer.status_code == 204
        for frame in stream:
            watched.take(frame)
    assert watched.bubble["data-state"] == "stopped"
    assert watched.document.test_id("stop").parent is not None
    assert lasting.stop().status_code == 303  # once more changes nothing
    assert lasting.answer.state == "stopped"


def test_stopping_an_answer_that_waits_needs_no_free_thread(server: Serve) -> None:
    rheo = server(LASTING, threads=1)
    running = rheo.send("first")
    running.running()
    waiting = rheo.send("second")
    waiting.stop()
    answer = waiting.ended(2)
    assert (answer.state, answer.ending, answer.text) == ("stopped", "cancelled", "")
    assert running.answer.state == "running"


def test_b14_eight_answers_at_once_keep_to_themselves(server: Serve) -> None:
    rheo = server({"steps": [], "echo": True, "delay_ms": 3})
    questions = [
        " ".join(f"q{which}-{word}" for word in range(length)) for which, length in enumerate(range(5, 85, 10))
    ]
    turns = [rheo.send(question) for question in questions]
    for turn, question in zip(turns, questions, strict=True):
        watched = rheo.watch(turn).to_the_end()
        assert watched.text == turn.ended(2).text == question


def test_b22_an_answer_that_was_cut_says_so(server: Serve) -> None:
    rheo = server({"steps": ["on "], "repeat": 50}, max_tokens=5)
    turn = rheo.send()
    assert turn.ended().text == "on " * 5
    bubble = rheo.watch(turn).bubble
    assert (bubble["data-state"], bubble["data-ending"]) == ("finished", "length")
    assert "length" in bubble.text


def test_b23_pages_answer_while_an_answer_burns_the_processor(server: Serve) -> None:
    rheo = server({"steps": ["x "], "repeat": 4000, "context_window": 100_000}, max_tokens=4000)
    rheo.ready()
    turn = rheo.send()
    took = []
    for _ in range(20):
        began = time.monotonic()
        rheo.page()
        took.append(time.monotonic() - began)
    # The median: a single page may wait for other work on the machine, all of them only for the loop.
    assert statistics.median(took) < 0.5
    assert turn.ended(20).state == "finished"


def test_a22_no_stream_stays_open_after_its_reader_or_its_answer(server: Serve) -> None:
    rheo = server(LASTING, ping_s=0.1)
    turn = rheo.send()
    turn.running()
    with rheo.stream(turn.stream_path) as stream:
        next(iter(stream))
        until(lambda: readers(rheo, turn) == 1)
    until(lambda: readers(rheo, turn) == 0)


def readers(rheo: Running, turn: Turn) -> int:
    return len(rheo.parts.events._channels[turn.generation_id].waiting)  # type: ignore[attr-defined]


def test_a_page_that_connects_again_after_its_conversation_was_deleted_is_told_so(server: Serve) -> None:
    rheo = server({"steps": ["one ", {"sleep_s": 30}]})
    turn = rheo.send()
    path = turn.stream_path
    turn.running("one ")
    rheo.client.post(f"{turn.path}/deletion")
    (frame,) = rheo.frames(path, last_id="1")
    assert frame.event == "done"
    assert rheo.client.get(path).status_code == 404


@pytest.mark.parametrize("case", ["C09-img", "C09-link"])
def test_c09_two_harmless_halves_never_make_a_live_tag(server: Serve, case: str) -> None:
    script = model_script(case)
    rheo = server({**script, "steps": [HOLD, *script["steps"]], "delay_ms": 60}, pace_s=0.001)
    turn = rheo.send()
    watched = rheo.watch(turn)
    with rheo.stream(watched.connects_to or "") as stream:
        rheo.go_on()
        for frame in stream:
            watched.take(frame)
            body = watched.bubble.test_id("message-body")
            assert not body.all("img")
            assert not [link for link in body.all("a") if "javascript" in (link.get("href") or "").lower()]
    assert len(watched.seen) > 3
    assert "".join(watched.text.split()) == "".join(turn.answer.text.split())
    assert watched.body == rheo.watch(turn).body


def test_a18_no_block_of_a_stream_has_a_retry_time_alone(server: Serve) -> None:
    rheo = server({"steps": ["retry: 5", "\n\nretry: 9\n\n", "end"], "delay_ms": 30}, ping_s=0.02)
    turn = rheo.send()
    with rheo.client.stream("GET", turn.stream_path, headers=HTMX) as response:
        blocks = response.read().decode().split("\n\n")
    assert len(blocks) > 3
    for block in blocks:
        fields = {line.partition(":")[0] for line in block.splitlines()}
        assert "retry" not in fields or fields & {"data", "event"}
