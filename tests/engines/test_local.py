"""The engine that makes one answer after the other: what it can be told, its line, and its recovery."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import tiny
from asking import GREEDY, ask, ending_of, exact, ids_of, text_of, user
from waiting import until

from app.engines import local
from app.engines.local import LocalEngine
from app.engines.protocol import Ending, Output, Piece, Reading, Sampling
from app.errors import Invalid, TooLong, Unavailable

WARM = Sampling(temperature=1, top_p=1, max_tokens=12, seed=7)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    folder = tiny.qwen(tmp_path_factory.mktemp("qwen"))
    loaded = local.load(exact(stall_s=60), str(folder), lambda progress: None)
    yield loaded
    loaded.close()


@pytest.fixture
def model(engine: LocalEngine) -> Any:
    return engine._generator._model


def logprobs_of(outputs: list[Output]) -> list[float]:
    return [number for output in outputs if isinstance(output, Piece) for number in output.logprobs]


def test_it_takes_every_field_of_sampling(engine: LocalEngine) -> None:
    assert engine.supports == {field.name for field in fields(Sampling)}


def test_a_stream_reads_then_answers_then_ends_once(engine: LocalEngine) -> None:
    """B22."""
    outputs = ask(engine, "Hello")
    kinds = [type(output) for output in outputs]
    assert kinds == sorted(kinds, key=[Reading, Piece, Ending].index)
    assert (kinds.count(Piece), kinds.count(Ending)) == (8, 1)
    assert ending_of(outputs) == Ending("length", len(engine.encode(user("Hello"))), 0, 8)
    assert engine.counters.active == 0


def test_it_tells_how_far_the_prompt_is_read(engine: LocalEngine, model: Any) -> None:
    """After one layer of two: the request's reader sees it while the step runs."""
    reached, go_on = Event(), Event()

    def hold(*_: Any) -> None:
        reached.set()
        go_on.wait(10)

    hook = model.model.layers[1].register_forward_hook(hold)
    try:
        stream = engine.stream(user("Hello"), GREEDY, Event())
        total = len(engine.encode(user("Hello")))
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(next, stream)
            assert reached.wait(10)
            seen = [first.result()]
            while seen[-1] != Reading(total * 2 // 3, total):
                seen.append(next(stream))
            go_on.set()
        assert all(isinstance(output, Reading) for output in seen)
        assert isinstance(list(stream)[-1], Ending)
    finally:
        go_on.set()
        hook.remove()


def test_the_same_seed_gives_the_same_text_under_load_and_another_seed_another(engine: LocalEngine) -> None:
    alone = ids_of(ask(engine, "Hello", WARM))
    others = [Sampling(temperature=1, max_tokens=6, seed=seed) for seed in (1, 2)]
    with ThreadPoolExecutor(4) as pool:
        again = [pool.submit(ask, engine, "Hello", WARM) for _ in range(2)]
        noise = [pool.submit(ask, engine, "Hello", other) for other in others]
        assert [ids_of(job.result()) for job in again] == [alone, alone]
        assert ids_of(noise[0].result()) != ids_of(noise[1].result())


def test_other_users_of_random_numbers_in_the_process_are_not_disturbed(engine: LocalEngine) -> None:
    import torch

    before = torch.random.get_rng_state()
    ask(engine, "Hello", WARM)
    ask(engine, "Hello", Sampling(temperature=1, max_tokens=3))
    assert torch.equal(before, torch.random.get_rng_state())


def test_without_a_seed_answers_differ(engine: LocalEngine) -> None:
    free = Sampling(temperature=1, top_p=1, max_tokens=12)
    assert len({ids_of(ask(engine, "Hello", free)) for _ in range(3)}) > 1


@pytest.mark.parametrize(
    "penalty", [{"repetition_penalty": 10}, {"presence_penalty": 2}, {"frequency_penalty": 2}], ids=str
)
def test_penalties_make_repetitions_rarer(engine: LocalEngine, penalty: dict[str, float]) -> None:
    def repeated(sampling: Sampling) -> int:
        ids = ids_of(ask(engine, "dog dog dog", sampling))
        return len(ids) - len(set(ids))

    plain = Sampling(temperature=3, top_p=0.05, max_tokens=60, seed=3)
    penalised = Sampling(temperature=3, top_p=0.05, max_tokens=60, seed=3, **penalty)
    assert repeated(penalised) < repeated(plain)


def test_a_repetition_penalty_chooses_as_the_librarys_own(engine: LocalEngine, model: Any) -> None:
    import torch
    from transformers import GenerationConfig

    prompt = engine.encode(user("dog dog dog"))
    config = GenerationConfig(max_new_tokens=12, do_sample=False, repetition_penalty=1.7, pad_token_id=0)
    theirs = model.generate(torch.tensor([prompt]), generation_config=config)[0, len(prompt) :].tolist()
    ours = ids_of(ask(engine, "dog dog dog", Sampling(temperature=0, max_tokens=12, repetition_penalty=1.7)))
    assert list(ours) == theirs[: len(ours)]


def test_logprobs_are_those_of_the_model_and_only_where_asked_for(engine: LocalEngine, model: Any) -> None:
    import torch

    outputs = ask(engine, "Hello", Sampling(temperature=0, max_tokens=5, logprobs=True))
    prompt, ids = engine.encode(user("Hello")), list(ids_of(outputs))
    scores = model(torch.tensor([prompt + ids])).logits.detach()[0].log_softmax(-1)
    expected = [float(scores[len(prompt) - 1 + index, token]) for index, token in enumerate(ids)]
    assert logprobs_of(outputs) == pytest.approx(expected, abs=1e-3)
    assert logprobs_of(ask(engine, "Hello")) == []


@pytest.mark.parametrize("temperature", [0, 1, 2, 1e-30, 5])
def test_whole_and_extreme_temperatures_are_taken(engine: LocalEngine, temperature: float) -> None:
    """B17."""
    assert ending_of(ask(engine, "Hi", Sampling(temperature=temperature, max_tokens=3))).answer_tokens <= 3


def test_temperature_0_is_the_same_three_times(engine: LocalEngine) -> None:
    """B16, B17."""
    assert len({ids_of(ask(engine, "Hi")) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("temperature", "hot"),
        ("repetition_penalty", 0),
        ("presence_penalty", 3),
        ("frequency_penalty", "much"),
        ("seed", 1.5),
        ("logprobs", 5),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_before_the_run(engine: LocalEngine, field: str, value: Any) -> None:
    """B17."""
    before = engine.counters
    with pytest.raises(Invalid, match=field):
        engine.stream(user("Hi"), Sampling(**{field: value}), Event())
    assert engine.counters == before


def test_a_prompt_that_is_too_long_is_refused_with_both_numbers(engine: LocalEngine) -> None:
    """B20."""
    with pytest.raises(TooLong, match=r"\d{3,} tokens, and it takes 256") as caught:
        ask(engine, "word " * 300)
    assert (caught.value.window, caught.value.tokens > 256) == (256, True)


def test_parallel_streams_wait_for_each_other_and_each_gets_its_own(engine: LocalEngine) -> None:
    """B14."""
    lengths = [2, 3, 5, 8, 13]

    def one(most: int) -> list[Output]:
        return ask(engine, f"Hello, number {most}", Sampling(temperature=0, max_tokens=most))

    with ThreadPoolExecutor(5) as pool:
        together = [ids_of(outputs) for outputs in pool.map(one, lengths)]
    assert together == [ids_of(one(most)) for most in lengths]


def test_cancelling_ends_the_stream_and_the_work_within_two_tokens(engine: LocalEngine) -> None:
    """B12."""
    cancelled = Event()
    stream = engine.stream(user("Hello"), Sampling(temperature=0, max_tokens=150), cancelled)
    while not isinstance(next(stream), Piece):
        pass
    cancelled.set()
    rest = list(stream)
    assert ending_of(rest).reason == "cancelled"
    # The hot loop of a tiny model is fast: what counts is that the line is free and nothing more is made.
    assert engine.counters.active == 0
    ask(engine, "Hello", Sampling(temperature=0, max_tokens=1))
    tokens = engine.counters.tokens
    assert ending_of(ask(engine, "Hello")).answer_tokens == engine.counters.tokens - tokens


def test_cancelling_ends_a_stream_that_waits_in_the_line_and_one_that_reads(
    engine: LocalEngine, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B12: within a step, between two layers."""
    reading, go_on = Event(), Event()
    later: list[int] = []

    def hold(*_: Any) -> None:
        reading.set()
        go_on.wait(10)

    hooks = [
        model.model.layers[0].register_forward_hook(hold),
        model.model.layers[1].register_forward_hook(lambda *_: later.append(1)),
    ]
    cancelled = Event()
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(lambda: list(engine.stream(user("Hello"), GREEDY, cancelled)))
            assert reading.wait(10)
            second = pool.submit(lambda: list(engine.stream(user("Hello"), GREEDY, cancelled)))
            until(lambda: engine.counters.active == 2)
            cancelled.set()
            endings = [ending_of(first.result()), ending_of(second.result())]
            go_on.set()
        assert [ending.reason for ending in endings] == ["cancelled", "cancelled"]
        assert text_of(ask(engine, "Hello", Sampling(temperature=0, max_tokens=1)))
    finally:
        for hook in hooks:
            hook.remove()
    # The second layer was reached by the last only.
    assert len(later) == 1


def test_closing_the_stream_early_frees_the_place(engine: LocalEngine) -> None:
    """B10."""
    stream = engine.stream(user("Hello"), Sampling(max_tokens=150), Event())
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert engine.counters.active == 0
    assert text_of(ask(engine, "Hello"))


class StepError(Exception):
    """What the model raises in these tests."""


def test_a_fault_in_a_step_comes_after_what_was_made_and_the_next_is_answered(
    engine: LocalEngine, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B01."""
    forward, steps = model.forward, iter(range(100))

    def faulty(*args: Any, **kwargs: Any) -> Any:
        if next(steps) == 3:
            raise StepError("the device is gone")
        return forward(*args, **kwargs)

    made: list[Output] = []
    with monkeypatch.context() as patch:
        patch.setattr(model, "forward", faulty)
        with pytest.raises(StepError):
            made.extend(engine.stream(user("Hello"), GREEDY, Event()))
    assert len(ids_of(made)) == 3
    assert text_of(ask(engine, "Hello"))


@pytest.mark.parametrize(
    "fault", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), "OutOfMemoryError"], ids=str
)
def test_want_of_memory_is_told_in_words(
    engine: LocalEngine, model: Any, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    import torch

    raised = torch.OutOfMemoryError("CUDA out of memory") if isinstance(fault, str) else fault

    def greedy_for_memory(*args: Any, **kwargs: Any) -> Any:
        raise raised

    with monkeypatch.context() as patch:
        patch.setattr(model, "forward", greedy_for_memory)
        with pytest.raises(Unavailable, match="not enough memory for this answer"):
            ask(engine, "Hello")
    assert text_of(ask(engine, "Hello"))


def test_a_step_that_never_returns_ends_as_a_time_out_and_the_line_goes_on(
    engine: LocalEngine, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B02."""
    forward, released, stuck = model.forward, Event(), Event()

    def wedged(*args: Any, **kwargs: Any) -> Any:
        if not stuck.is_set():
            stuck.set()
            released.wait(60)
        return forward(*args, **kwargs)

    rebuilt = engine.counters.rebuilt
    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(model, "forward", wedged)
        patch.setattr(engine._worker, "_stall_s", 0.3)
        first = pool.submit(ask, engine, "Hello")
        assert stuck.wait(10)
        waiting = pool.submit(ask, engine, "Hello")
        with pytest.raises(TimeoutError, match=r"no step for 0\.3 seconds"):
            first.result()
        assert text_of(waiting.result())
    released.set()
    assert engine.counters.rebuilt == rebuilt + 1
    assert engine.counters.active == 0


def test_a_thread_that_is_gone_is_noticed_and_replaced(
    engine: LocalEngine, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    def leave(*args: Any, **kwargs: Any) -> Any:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda _: None)
        patch.setattr(model, "forward", leave)
        with pytest.raises(RuntimeError, match="thread has ended"):
            ask(engine, "Hello")
    assert text_of(ask(engine, "Hello"))


def test_closing_ends_running_and_waiting_streams_with_an_error(tmp_path: Path) -> None:
    engine = local.load(exact(), str(tiny.qwen(tmp_path)), lambda progress: None)
    stream = engine.stream(user("Hello"), Sampling(max_tokens=200), Event())
    next(stream)
    engine.close()
    with pytest.raises(Unavailable, match="closed"):
        list(stream)
    with pytest.raises(Unavailable, match="closed"):
        ask(engine, "Hi")
    engine.close()
