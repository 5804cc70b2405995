"""Which models are in memory, who gets them, and who waits: with scripted models, and no sleeps of ours."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from waiting import until

from app.engines.catalog import Catalog, ModelState, catalog_of
from app.engines.faults import NoMemory
from app.engines.protocol import Engine, Progress, Report
from app.engines.scripted import Script, ScriptedEngine
from app.engines.shelf import Model, lying_in
from app.errors import AppError, Busy, Unavailable
from app.settings import Settings

NEVER = threading.Event()


@dataclass
class Bench:
    """Models whose loading the test holds in its hand, and what became of them, in order."""

    sizes: dict[str, int] = field(default_factory=dict)
    """How much memory each takes, of `memory`."""
    memory: int = 100
    gates: dict[str, threading.Event] = field(default_factory=dict)
    """Models that are loaded only once their gate is open."""
    faults: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    taken: int = 0

    def model(self, name: str) -> Model:
        def check(_: Report) -> None:
            if self.faults.get(name) == "check":
                raise Unavailable(f"{name} is no model")

        def load(report: Report) -> Engine:
            report(Progress("reading", 0.5))
            if name in self.gates:
                assert self.gates[name].wait(10)
            if self.faults.get(name) == "load":
                raise Unavailable(f"{name} is broken")
            if self.taken + self.sizes.get(name, 1) > self.memory:
                raise NoMemory(f"{name} is too large")
            self.taken += self.sizes.get(name, 1)
            self.log.append(f"+{name}")
            return Counted(self, name)

        return Model(name, load, check)


class Counted(ScriptedEngine):
    """An engine that says when it goes."""

    def __init__(self, bench: Bench, name: str) -> None:
        super().__init__(Script(name))
        self._bench = bench

    def close(self) -> None:
        self._bench.log.append(f"-{self.model}")
        self._bench.taken -= self._bench.sizes.get(self.model, 1)
        super().close()


@pytest.fixture
def bench() -> Bench:
    return Bench()


@contextmanager
def opened(bench: Bench, names: str = "abc", at_once: int = 1) -> Iterator[Catalog]:
    catalog = Catalog(lambda: [bench.model(name) for name in names], at_once)
    catalog.start()
    try:
        yield catalog
    finally:
        catalog.close()


@dataclass
class User:
    """Somebody on a thread of their own who leases a model and keeps it until told to give it back."""

    future: "Future[str | None]"
    has: threading.Event
    done: threading.Event
    cancelled: threading.Event
    told: list[ModelState]

    def leave(self) -> str | None:
        self.done.set()
        return self.future.result(10)


@pytest.fixture
def use() -> Iterator[Callable[[Catalog, str | None], User]]:
    with ThreadPoolExecutor(32) as pool:
        users: list[User] = []

        def begin(catalog: Catalog, model: str | None) -> User:
            has, done, cancelled, told = threading.Event(), threading.Event(), threading.Event(), list[ModelState]()

            def lease() -> str | None:
                with catalog.lease(model, cancelled, told.append) as engine:
                    if engine is None:
                        return None
                    has.set()
                    assert done.wait(10)
                    assert not engine._closed.is_set(), "it was unloaded while it was in use"  # type: ignore[attr-defined]
                    return engine.model

            user = User(pool.submit(lease), has, done, cancelled, told)
            users.append(user)
            return user

        yield begin
        for user in users:
            user.cancelled.set()
            user.done.set()


Use = Callable[[Catalog, str | None], User]


def states(catalog: Catalog) -> dict[str, str]:
    return {state.model: state.state for state in catalog.models()}


def test_the_first_model_loads_at_the_start_and_the_others_wait_to_be_asked(bench: Bench, use: Use) -> None:
    with opened(bench) as catalog:
        assert catalog.default == "a"
        until(lambda: catalog.state().state == "ready")
        assert states(catalog) == {"a": "ready", "b": "unloaded", "c": "unloaded"}
        assert catalog.loaded("b") is None
        user = use(catalog, "b")
        assert user.has.wait(5)
        assert states(catalog) == {"a": "unloaded", "b": "ready", "c": "unloaded"}
        assert bench.log == ["+a", "-a", "+b"]
        assert user.leave() == "b"


def test_who_asks_before_the_start_is_not_robbed_of_the_model_by_the_default(bench: Bench, use: Use) -> None:
    catalog = Catalog(lambda: [bench.model(name) for name in "ab"])
    user = use(catalog, "b")
    until(lambda: user.told)
    catalog.start()
    assert user.has.wait(5)
    assert states(catalog) == {"a": "unloaded", "b": "ready"}
    assert user.leave() == "b"
    catalog.close()


def test_a_model_in_use_stays_until_it_has_answered_and_who_waits_is_told(bench: Bench, use: Use) -> None:
    bench.gates["b"] = threading.Event()
    with opened(bench) as catalog:
        first, second = use(catalog, None), use(catalog, "a")
        assert first.has.wait(5)
        assert second.has.wait(5)
        third = use(catalog, "b")
        until(lambda: third.told and third.told[-1].detail == "waiting until a has answered")
        assert first.leave() == "a"
        assert not third.has.is_set()
        assert bench.log == ["+a"]
        assert second.leave() == "a"
        until(lambda: third.told[-1] == ModelState("b", "loading", 0.5, "reading"))
        bench.gates["b"].set()
        assert third.has.wait(5)
        assert third.leave() == "b"


def test_a_model_that_is_always_in_use_does_not_keep_another_away(bench: Bench, use: Use) -> None:
    """Who comes after somebody that waits for another model waits, too; and all who wait for one get it at once."""
    with opened(bench) as catalog:
        early = use(catalog, "a")
        assert early.has.wait(5)
        other = use(catalog, "b")
        until(lambda: catalog.state("b").detail.startswith("waiting until"))
        late = [use(catalog, "a"), use(catalog, "a")]
        another = use(catalog, "b")
        early.leave()
        assert other.has.wait(5)
        assert another.has.wait(5)
        assert not any(user.has.is_set() for user in late)
        other.leave()
        another.leave()
        assert [user.has.wait(5) for user in late] == [True, True]
        assert bench.log == ["+a", "-a", "+b", "-b", "+a"]


def test_answers_go_on_while_another_model_is_being_looked_for(bench: Bench, use: Use) -> None:
    with opened(bench, at_once=2) as catalog:
        bench.gates["b"] = threading.Event()
        assert use(catalog, "a").has.wait(5)
        slow = use(catalog, "b")
        until(lambda: catalog.state("b").progress == 0.5)
        assert use(catalog, "a").has.wait(5)
        bench.gates["b"].set()
        assert slow.has.wait(5)
        assert states(catalog) == {"a": "ready", "b": "ready", "c": "unloaded"}


def test_of_several_the_one_that_was_not_used_for_longest_goes(bench: Bench, use: Use) -> None:
    with opened(bench, at_once=2) as catalog:
        for model in ("a", "b", "a", "c"):
            user = use(catalog, model)
            assert user.has.wait(5)
            user.leave()
        assert bench.log == ["+a", "+b", "-b", "+c"]


def test_a_model_that_does_not_fit_beside_another_takes_its_place(bench: Bench, use: Use) -> None:
    bench.sizes = {"a": 60, "b": 60}
    with opened(bench, at_once=2) as catalog:
        first = use(catalog, "a")
        assert first.has.wait(5)
        second = use(catalog, "b")
        until(lambda: catalog.state("b").detail == "waiting until a has answered")
        first.leave()
        assert second.has.wait(5)
        assert bench.log == ["+a", "-a", "+b"]


@pytest.mark.parametrize(
    ("kind", "words"), [("check", "is no model"), ("load", "is broken"), ("size", "is too large")]
)
def test_a_model_that_cant_be_loaded_says_so_to_all_who_wait_and_the_one_before_is_there(
    bench: Bench, use: Use, kind: str, words: str
) -> None:
    bench.faults = {"b": kind}
    bench.sizes = {"b": 1000} if kind == "size" else {}
    with opened(bench) as catalog:
        until(lambda: catalog.state().state == "ready")
        users = [use(catalog, "b") for _ in range(3)]
        for user in users:
            with pytest.raises(Unavailable, match=f"The model b can't be used: b {words}"):
                user.future.result(5)
        assert (catalog.state("b").state, catalog.state("b").detail) == ("failed", f"b {words}")
        until(lambda: catalog.state("a").state == "ready")
        assert bench.log == (["+a"] if kind == "check" else ["+a", "-a", "+a"])
        # What was wrong may be put right without a restart.
        bench.faults, bench.sizes = {}, {}
        catalog.load("b")
        until(lambda: catalog.state("b").state == "ready")
        assert use(catalog, "b").has.wait(5)


def test_who_stops_waiting_is_let_go_and_nothing_is_unloaded_for_them(bench: Bench, use: Use) -> None:
    with opened(bench) as catalog:
        busy = use(catalog, "a")
        assert busy.has.wait(5)
        waiting = use(catalog, "b")
        until(lambda: catalog.state("b").detail.startswith("waiting until"))
        waiting.cancelled.set()
        assert waiting.future.result(5) is None
        until(lambda: catalog.state("b").state == "unloaded")
        busy.leave()
        again = use(catalog, "a")
        assert again.has.wait(5)
        assert bench.log == ["+a"]


def test_a_model_is_loaded_and_unloaded_by_hand_but_never_while_it_is_used(bench: Bench, use: Use) -> None:
    with opened(bench) as catalog:
        catalog.load("c")
        until(lambda: catalog.state("c").state == "ready")
        user = use(catalog, "c")
        assert user.has.wait(5)
        with pytest.raises(Busy, match="c is in use"):
            catalog.unload("c")
        user.leave()
        catalog.unload("c")
        assert states(catalog) == {"a": "unloaded", "b": "unloaded", "c": "unloaded"}
        with pytest.raises(Unavailable, match="not among the models"):
            catalog.load("nowhere")


def test_a_model_is_borrowed_only_where_it_is_there_and_nobody_waits_for_its_place(bench: Bench, use: Use) -> None:
    with opened(bench) as catalog:
        until(lambda: catalog.state().state == "ready")
        with catalog.borrow() as engine, catalog.borrow("b") as other:
            assert engine is catalog.loaded("a")
            assert other is None
            waiting = use(catalog, "b")
            until(lambda: catalog.state("b").detail.startswith("waiting until"))
            with catalog.borrow("a") as late:
                assert late is None
        assert waiting.has.wait(5)


def test_a_model_that_is_not_there_is_told_by_its_name(bench: Bench, use: Use) -> None:
    with opened(bench) as catalog:
        assert catalog.state("x").state == "failed"
        with pytest.raises(Unavailable, match="The model x can't be used: it is not among the models here"):
            use(catalog, "x").future.result(5)


def test_closing_lets_everybody_go(bench: Bench, use: Use) -> None:
    bench.gates["a"] = threading.Event()
    with opened(bench) as catalog:
        users = [use(catalog, "a"), use(catalog, "b")]
        until(lambda: catalog.state().progress == 0.5)
        catalog.close()
        assert [user.future.result(5) for user in users] == [None, None]
        bench.gates["a"].set()
        until(lambda: bench.log == ["+a", "-a"])


def test_many_who_want_many_models_all_get_them(bench: Bench) -> None:
    """No order of coming and going leaves anybody behind, and nothing is unloaded under anybody."""
    with opened(bench, at_once=2) as catalog, ThreadPoolExecutor(12) as pool:

        def ask(number: int) -> bool:
            with catalog.lease("abc"[number * 7 % 3], NEVER) as engine:
                assert isinstance(engine, ScriptedEngine)
                return engine.encode is not None and not engine._closed.is_set()

        assert all(pool.map(ask, range(60)))


def test_models_of_a_folder_are_found_by_their_names(tmp_path: Path) -> None:
    for name in ("mine", "maker/theirs", "empty", ".hidden"):
        (tmp_path / name).mkdir(parents=True)
        if name != "empty":
            (tmp_path / name / "config.json").write_text("{}")
            (tmp_path / name / "model.safetensors").touch()
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "adapter_config.json").write_text("{}")
    for file in ("some.gguf", "maker/other.GGUF", "notes.txt", "half.gguf.part"):
        (tmp_path / file).touch()
    assert [name for name, _ in lying_in(tmp_path)] == [
        "lora",
        "maker/other.GGUF",
        "maker/theirs",
        "mine",
        "some.gguf",
    ]
    assert list(lying_in(tmp_path / "nowhere")) == []


def test_what_comes_into_the_folder_is_found_and_what_is_wrong_with_it_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    catalog = catalog_of(Settings(model=("smollm2",), models_dir=folder))
    assert list(states(catalog)) == ["smollm2"]
    folder.mkdir()
    (folder / "new.gguf").write_bytes(b"no model")
    until(lambda: list(states(catalog)) == ["smollm2", "new.gguf"])
    assert catalog.state("new.gguf").state == "unloaded"
    with pytest.raises(AppError, match="new"):
        catalog._places.slots["new.gguf"].model.check(lambda progress: None)
    (folder / "new.gguf").unlink()
    until(lambda: list(states(catalog)) == ["smollm2"])


def test_a_path_is_called_by_its_last_part() -> None:
    assert ModelState("/home/someone/models/mine").label == "mine"
    assert ModelState("Qwen/Qwen3-0.6B").label == "Qwen/Qwen3-0.6B"
