"""Stop strings: found wherever the tokens are cut, never shown, and nothing else is held back for long."""

from collections.abc import Sequence
from threading import Event

import pytest
from casefiles import model_script
from hypothesis import example, given
from hypothesis import strategies as st
from serving import Serve

from app.engines.protocol import Ending, Output, Piece
from app.generation.stops import Stopping, Stops


def pieces(texts: Sequence[str]) -> list[Output]:
    made: list[Output] = [Piece(text, (number,)) for number, text in enumerate(texts)]
    return [*made, Ending("length")]


def watched(texts: Sequence[str], stops: Sequence[str], before: str = "") -> tuple[str, Stops, list[Output]]:
    """What is left of the whole text, who watched, and what came through."""
    stopping, watcher = Stopping(Event()), Stops(stops, before)
    outputs = list(watcher.watch(pieces(texts), stopping))
    assert stopping.is_set() == watcher.hit
    text = before + "".join(output.text for output in outputs if isinstance(output, Piece))
    return text[: len(text) - watcher.back] + watcher.rest, watcher, outputs


def first(text: str, stops: Sequence[str]) -> int:
    return min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))


@given(
    st.lists(st.text(alphabet="ab\n", max_size=3), max_size=12),
    st.lists(st.text(alphabet="ab\n", min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(0, 12),
)
@example(["a", "a", "b"], ["aab"], 0)
def test_whatever_the_tokens_the_text_ends_before_the_first_stop_string(
    texts: list[str], stops: list[str], earlier: int
) -> None:
    before = "".join(texts[:earlier])
    before = before[: first(before, stops)]
    new = texts[earlier:]
    whole = before + "".join(new)
    # With several stop strings the one that is complete first counts: it is not known yet what else would come.
    ends = [at + len(stop) for stop in stops if (at := whole.find(stop)) >= 0]
    left, watcher, _ = watched(new, stops, before)
    assert watcher.hit == bool(ends)
    assert not any(stop in left for stop in stops)
    assert whole.startswith(left)
    if not ends:
        assert left == whole
    if len(stops) == 1:
        assert left == whole[: first(whole, stops)]


@given(st.lists(st.text(alphabet="ab", max_size=3), max_size=12), st.text(alphabet="ab", min_size=1, max_size=4))
def test_what_comes_through_is_whole_tokens_with_their_ids_in_order(texts: list[str], stop: str) -> None:
    _, _, outputs = watched(texts, [stop])
    through = [output for output in outputs if isinstance(output, Piece)]
    assert through == pieces(texts)[: len(through)]


def test_only_what_could_begin_a_stop_string_is_held_back() -> None:
    watcher = Stops(["beta gamma"])
    shown = ["".join(p.text for p in watcher.feed(Piece(text, ()))) for text in ("alpha", " be", "tter", " now")]
    assert shown == ["alpha", "", " better", " now"]


def test_a_model_that_fails_has_said_what_was_held_back() -> None:
    def failing():  # type: ignore[no-untyped-def]
        yield Piece("a b", (1,))
        raise RuntimeError("broken")

    outputs = Stops(["bc"]).watch(failing(), Stopping(Event()))
    assert next(outputs) == Piece("a b", (1,))
    with pytest.raises(RuntimeError, match="broken"):
        next(outputs)


def test_f07_a_stop_string_spread_over_tokens_ends_the_answer_and_is_never_shown(server: Serve) -> None:
    case = model_script("F07")
    rheo = server({"steps": [*case["steps"], {"sleep_s": 60}]}, stop=("beta gamma",))
    turn = rheo.send()
    answer = turn.ended(5)
    assert (answer.text, answer.state, answer.ending) == ("alpha ", "finished", "stop")
    assert "beta" not in "".join(frame.data for frame in rheo.watch(turn).seen)
    assert rheo.parts.catalog.loaded().counters.active == 0  # type: ignore[union-attr]


def test_an_answer_that_is_cut_within_a_token_is_read_as_text_and_one_between_tokens_by_its_ids(
    server: Serve,
) -> None:
    rheo = server(["alpha", " be", "ta gamma"], stop=("beta",))
    within = rheo.send().ended()
    assert (within.text, within.token_ids) == ("alpha ", None)
    between = server(["alpha ", "be", "ta gamma"], stop=("beta",)).send("Another question").ended()
    assert between.text == "alpha "
    assert len(between.token_ids or ()) == 1


def test_a_beginning_that_becomes_no_stop_string_is_shown_at_the_end(server: Serve) -> None:
    answer = server(["so", " far", " be"], stop=("beta",)).send().ended()
    assert (answer.text, answer.ending) == ("so far be", "stop")


def test_a_stop_string_that_began_before_the_answer_was_continued_is_found(server: Serve) -> None:
    rheo = server(["one ", "be", "ta ", "two "], max_tokens=2, stop=("beta",))
    turn = rheo.send()
    assert turn.ended().text == "one be"
    rheo.client.post(f"/messages/{turn.answer_id}/continuation")
    answer = turn.ended()
    assert (answer.text, answer.ending, answer.token_ids) == ("one ", "stop", None)


def test_a_line_break_in_a_stop_string_is_written_as_two_characters(server: Serve) -> None:
    rheo = server(["a\r", "\nUser: b"], stop=(r"\nUser:",))
    assert rheo.send().ended().text == "a"
