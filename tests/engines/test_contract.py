"""What every engine does, whatever it is made of. Slow ones are loaded once."""

import re
import threading
from collections.abc import Iterator

import pytest
from model_server import model_server
from waiting import until

from app.engines.protocol import Counters, Ending, Engine, Output, Part, Piece, Prompt, Reading, Sampling
from app.engines.remote import engine as remote_engine
from app.engines.scripted import Script
from app.errors import Invalid
from app.settings import Settings

QUESTION = Prompt((Part("user", "Count from one to a hundred."),))
FEW = 12
SHORT = Sampling(temperature=0, max_tokens=FEW)
LONG = Sampling(temperature=0, max_tokens=150)


def scripted() -> Engine:
    steps = tuple(f" word{number}" for number in range(200))
    return Script("scripted", steps, delay_s=0.002).load(lambda progress: None)


@pytest.fixture(scope="module")
def remote() -> Iterator[Engine]:
    """The model of another server."""
    with model_server() as server:
        made = remote_engine.load(Settings(engine="remote", remote_url=(server.url,)), None, lambda progress: None)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(params=["scripted", "batching", "local", "remote"])
def any_engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Each kind; the real ones are loaded once for all tests of engines."""
    if request.param != "scripted":
        names = {"batching": "engine", "local": "local_engine", "remote": "remote"}
        yield request.getfixturevalue(names[request.param])
        return
    made = scripted()
    yield made
    made.close()


def outputs(engine: Engine, sampling: Sampling | None = None) -> list[Output]:
    return list(engine.stream(QUESTION, sampling or SHORT, threading.Event()))


def idle(engine: Engine) -> None:
    until(lambda: engine.counters.active == 0)


def test_a_stream_is_readings_then_pieces_then_one_ending(any_engine: Engine) -> None:
    got = outputs(any_engine)
    kinds = [type(output) for output in got]
    assert kinds == sorted(kinds, key=[Reading, Piece, Ending].index)
    assert kinds.count(Ending) == 1
    assert kinds.count(Piece) >= 1
    readings = [output for output in got if isinstance(output, Reading)]
    assert all(0 <= reading.done <= reading.total for reading in readings)


def test_the_ending_counts_tokens_and_the_limit_is_kept(any_engine: Engine) -> None:
    *rest, ending = outputs(any_engine)
    pieces = [output for output in rest if isinstance(output, Piece)]
    assert isinstance(ending, Ending)
    assert ending.reason == "length"
    assert ending.answer_tokens == FEW == sum(len(piece.token_ids) for piece in pieces)
    assert ending.prompt_tokens == len(any_engine.encode(QUESTION))
    assert 0 <= ending.reused_tokens <= ending.prompt_tokens


def test_no_piece_holds_a_half_character(any_engine: Engine) -> None:
    assert not any("\ufffd" in output.text for output in outputs(any_engine) if isinstance(output, Piece))


def test_ids_of_an_answer_are_spliced_into_the_next_prompt(any_engine: Engine) -> None:
    pieces = [output for output in outputs(any_engine) if isinstance(output, Piece)]
    ids = tuple(id_ for piece in pieces for id_ in piece.token_ids)
    answer = Part("assistant", "".join(piece.text for piece in pieces), ids)
    encoded = any_engine.encode(Prompt((*QUESTION.parts, answer, Part("user", "And?"))))
    assert any(tuple(encoded[start : start + len(ids)]) == ids for start in range(len(encoded)))


def test_b12_a_cancelled_stream_ends_soon_and_says_so(any_engine: Engine) -> None:
    cancelled = threading.Event()
    got: list[Output] = []
    for output in any_engine.stream(QUESTION, LONG, cancelled):
        got.append(output)
        if isinstance(output, Piece):
            cancelled.set()
    assert isinstance(got[-1], Ending)
    assert got[-1].reason == "cancelled"
    assert got[-1].answer_tokens < 10
    idle(any_engine)


def test_a_stream_that_is_cancelled_before_it_begins_makes_nothing(any_engine: Engine) -> None:
    cancelled = threading.Event()
    cancelled.set()
    got = list(any_engine.stream(QUESTION, LONG, cancelled))
    assert [type(output) for output in got if not isinstance(output, Reading)] == [Ending]


def test_closing_a_stream_early_frees_what_it_held(any_engine: Engine) -> None:
    stream = any_engine.stream(QUESTION, LONG, threading.Event())
    while not isinstance(next(stream), Piece):
        pass
    assert any_engine.counters.active == 1
    stream.close()  # type: ignore[attr-defined]
    idle(any_engine)
    # What was under way may still be counted; then it stands still.
    until(lambda: steps_stand_still(any_engine))


def steps_stand_still(engine: Engine) -> bool:
    before = engine.counters.steps
    threading.Event().wait(0.1)
    return engine.counters.steps == before


def test_counters_only_grow_and_tell_who_is_in_work(any_engine: Engine) -> None:
    before = any_engine.counters
    assert isinstance(before, Counters)
    outputs(any_engine)
    idle(any_engine)
    after = any_engine.counters
    assert after.steps > before.steps
    assert after.tokens >= before.tokens + FEW


@pytest.mark.parametrize(
    "sampling",
    [Sampling(seed=1, max_tokens=FEW), Sampling(repetition_penalty=1.1, max_tokens=FEW)],
    ids=["seed", "penalty"],
)
def test_a_choice_that_is_not_supported_is_refused_before_the_run(any_engine: Engine, sampling: Sampling) -> None:
    if sampling.asked() <= any_engine.supports:
        assert outputs(any_engine, sampling)
        return
    before = any_engine.counters.steps
    with pytest.raises(Invalid):
        any_engine.stream(QUESTION, sampling, threading.Event())
    assert any_engine.counters.steps == before


def test_a_prompt_longer_than_the_window_is_refused_before_the_run(any_engine: Engine) -> None:
    whole = Prompt((Part("user", "word " * any_engine.context_window),))
    with pytest.raises(Invalid):
        any_engine.stream(whole, Sampling(temperature=0, max_tokens=1), threading.Event())
    assert isinstance(outputs(any_engine)[-1], Ending)


def test_b14_streams_at_once_each_get_their_own(any_engine: Engine) -> None:
    alone = [piece.token_ids for piece in outputs(any_engine) if isinstance(piece, Piece)]
    got: list[list[Output]] = []

    def ask() -> None:
        got.append(outputs(any_engine))

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(60)
    assert len(got) == 4
    for one in got:
        assert isinstance(one[-1], Ending)
        ids = [piece.token_ids for piece in one if isinstance(piece, Piece)]
        assert sum(map(len, ids)) == FEW
        if any_engine.detail == "scripted":  # in half precision a batch may choose otherwise
            assert ids == alone


def test_what_it_is_can_be_told(any_engine: Engine) -> None:
    assert any_engine.model
    assert any_engine.detail
    assert any_engine.concurrency >= 1
    assert any_engine.context_window > 100
    assert {"temperature", "max_tokens"} <= any_engine.supports


def test_what_it_runs_exactly_can_be_told(any_engine: Engine) -> None:
    identity = any_engine.identity
    if identity.engine == "remote":
        assert {identity.revision, identity.template, identity.dtype, identity.device} == {"unknown"}
        return
    kinds = {"scripted": "scripted", "continuous batching": "batching", "generate": "local"}
    assert identity.engine == kinds[any_engine.detail.partition(",")[0]]
    for digest in (identity.revision, identity.template):
        assert re.fullmatch("sha256:[0-9a-f]{64}", digest)
    assert identity.dtype in ("float32", "bfloat16")
    assert identity.device in ("cpu", "cuda", "mps")
    assert set(identity.libraries) in (set(), {"torch", "transformers"})


def test_a_prompt_of_exact_ids_is_read_as_it_is_and_answered_alike(any_engine: Engine) -> None:
    ids = tuple(any_engine.encode(QUESTION))
    exact = Prompt(QUESTION.parts, token_ids=ids)
    assert any_engine.encode(Prompt((), token_ids=ids)) == list(ids)
    got = list(any_engine.stream(exact, SHORT, threading.Event()))
    assert isinstance(got[-1], Ending)
    assert got[-1].prompt_tokens == len(ids)
    if any_engine.identity.engine != "batching":  # which reads no prefix twice, and then rounds otherwise
        assert [o for o in got if isinstance(o, Piece)] == [o for o in outputs(any_engine) if isinstance(o, Piece)]


def test_an_answer_goes_on_from_the_text_that_is_given(any_engine: Engine) -> None:
    pieces = [output for output in outputs(any_engine) if isinstance(output, Piece)]
    given = pieces[: FEW // 2]
    ids = tuple(id_ for piece in given for id_ in piece.token_ids)
    answer = Part("assistant", "".join(piece.text for piece in given), ids)
    prompt = Prompt((*QUESTION.parts, answer), continues=True)
    got = list(any_engine.stream(prompt, Sampling(temperature=0, max_tokens=3), threading.Event()))
    assert isinstance(got[-1], Ending)
    text = "".join(output.text for output in got if isinstance(output, Piece))
    assert text
    if any_engine.detail == "scripted":
        assert text == "".join(piece.text for piece in pieces[FEW // 2 : FEW // 2 + 3])


def test_what_was_encoded_can_be_read(any_engine: Engine) -> None:
    assert QUESTION.parts[0].text in any_engine.decode(any_engine.encode(QUESTION))
    assert isinstance(any_engine.own_system, str)
