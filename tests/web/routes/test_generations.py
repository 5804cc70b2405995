"""The stream of an answer as a browser reads it, and stopping."""

import random
import statistics
import time
from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from casefiles import case_file, model_script
from dom import parse
from serving import HTMX, Running, Serve, Turn, Watched
from sse import Reader
from waiting import until

FRAMING = {case["id"]: case for case in case_file("sse-newlines.json")["cases"]}
WORDS = ["word0", *(f" word{number}" for number in range(1, 30))]
SCRIPT = LASTING = [*WORDS, {"sleep_s": 60}]


def framed(server: Serve, case_id: str, save_s: float) -> tuple[Watched, Turn]:
    return server({"steps": FRAMING[case_id]["pieces"], "delay_ms": 30}, save_s=save_s).watch_all()


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
    watched, turn = framed(server, "A01", save_s)
    assert watched.streamed == FRAMING["A01"]["joined"].strip("\n")
    assert turn.answer.text == FRAMING["A01"]["joined"]


def test_a03_no_space_at_the_edge_of_a_piece_is_lost(server: Serve, save_s: float) -> None:
    watched, turn = framed(server, "A03", save_s)
    assert watched.streamed == turn.answer.text == FRAMING["A03"]["joined"]


def test_a04_a_lone_carriage_return_forges_no_event(server: Serve, save_s: float) -> None:
    watched, turn = framed(server, "A04", save_s)
    assert {frame.event for frame in watched.seen} == {"message"}
    assert watched.streamed == turn.answer.text == FRAMING["A04"]["joined_after_cr_to_lf"]


def test_a_carriage_return_and_its_line_feed_in_two_pieces_are_one_line_end(server: Serve, save_s: float) -> None:
    rheo = server({"steps": ["one\r", "\ntwo\r", "three\r\n", "\nfour"], "delay_ms": 30}, save_s=save_s)
    watched, turn = rheo.watch_all()
    assert watched.streamed == turn.answer.text == "one\ntwo\nthree\n\nfour"


def test_e32_a_nul_from_the_model_is_shown_and_kept_as_a_replacement_character(server: Serve) -> None:
    rheo = server(["a\0b"])
    turn = rheo.send()
    watched = rheo.watch(turn).to_the_end()
    assert turn.answer.text == watched.text == "a\ufffdb"


def test_a06_words_of_the_protocol_are_only_text(server: Serve, save_s: float) -> None:
    watched, turn = framed(server, "A06", save_s)
    assert {frame.event for frame in watched.seen} == {"message"}
    assert watched.streamed == FRAMING["A06"]["joined"].strip("\n")
    assert turn.answer.text == FRAMING["A06"]["joined"]


def test_a07_the_last_frame_is_the_saved_bubble_which_reads_nothing_more(server: Serve) -> None:
    rheo = server(["all", " said"])
    turn = rheo.send()
    with rheo.stream(turn.stream_path) as stream:
        frames = list(stream)
    watched = rheo.watch(turn)
    assert watched.connects_to is None
    article = parse(frames[-1].data).one("article")
    assert article["data-state"] == "finished"
    assert article.get("hx-sse:connect") is None
    assert article.test_id("message-body").body == "all said"


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


def test_the_streamed_and_the_reloaded_bubble_are_the_same_markup(server: Serve) -> None:
    rheo = server(["# Title\n", "some *text* & `<b>`"])
    turn = rheo.send()
    last = rheo.frames(turn.stream_path)[-1].data
    start = last.index("<article")
    page = rheo.client.get(turn.path).text
    assert last[start : last.index("</article>", start)] in page


def test_a11_nothing_on_the_way_may_hold_a_stream_back(lasting: Turn) -> None:
    with lasting.server.stream(lasting.stream_path) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "no-store" in stream.headers["cache-control"]
        assert stream.headers["x-accel-buffering"] == "no"
        assert "content-length" not in stream.headers
        assert "content-encoding" not in stream.headers


def test_a16_a_silent_stream_says_that_it_lives_without_being_seen(server: Serve) -> None:
    rheo = server(["first ", {"sleep_s": 0.6}, "last"], ping_s=0.05)
    turn = rheo.send()
    turn.running("first")
    with rheo.stream(turn.stream_path) as stream:
        frames = list(stream)
    assert 3 <= len(stream.reader.comments) <= 20
    assert [frame.id for frame in frames[:2]] == ["1", "2"]
    assert turn.answer.text == "first last"


def test_a_reader_goes_on_from_any_event_and_gets_exactly_the_rest(lasting: Turn) -> None:
    for number in range(len(WORDS) + 1):
        for path, last_id in (
            (lasting.stream_path, str(number)),
            (f"{lasting.stream_path}?after={number}", None),
            (f"{lasting.stream_path}?after=3", str(number)),
        ):
            assert rest(lasting.server, path, last_id) == "".join(WORDS[number:])


def rest(rheo: Running, path: str, last_id: str | None) -> str:
    """What a running stream sends up to the last word."""
    text = ""
    if path.endswith(f"={len(WORDS)}") or last_id == str(len(WORDS)):
        return ""  # nothing comes; what can be read would wait for the end
    with rheo.stream(path, last_id) as stream:
        for frame in stream:
            text += parse(frame.data).text
            if frame.id == str(len(WORDS)):
                break
    return text


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
    assert frames[0].id == ""
    watched.take(frames[0])
    assert watched.bubble["data-state"] == "running"
    assert watched.text == "".join(WORDS)
    assert parse_qs(urlsplit(watched.connects_to or "").query)["after"] == ["30"]


def test_a_place_above_all_events_of_a_waiting_answer_changes_no_numbers(server: Serve) -> None:
    rheo = server([{"sleep_s": 0.3}, "one ", "two"])
    turn = rheo.send()
    assert len(rheo.frames(f"{turn.stream_path}?after=1000")) == 1
    watched = rheo.watch(turn).to_the_end()
    assert watched.streamed == "one two"
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
    # A reader that comes after the end gets the whole bubble at once.
    assert turn.answer.text.startswith(watched.streamed)
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


def test_b03_a_text_without_spaces_comes_steadily(server: Serve) -> None:
    script = model_script("B03")
    rheo = server(script)
    rheo.ready()
    turn = rheo.send()
    moments = [time.monotonic()]
    with rheo.stream(turn.stream_path) as stream:
        text = ""
        for frame in stream:
            moments.append(time.monotonic())
            if frame.id:
                text += parse(frame.data).one("hx-partial").text if "article" not in frame.data else ""
    gaps = [later - sooner for sooner, later in pairwise(moments)]
    assert max(gaps) < script["longest_gap_s"]
    assert len(moments) > len(script["steps"]) // 2
    assert text == turn.answer.text == "".join(script["steps"])


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
        assert question.startswith(watched.streamed)
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
        assert readers(rheo, turn) == 1
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
