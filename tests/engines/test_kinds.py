"""Each kind of model that people bring loads by its folder and answers in both engines."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
from asking import ask, ending_of, exact, ids_of, text_of, user

from app.engines import batching, local
from app.engines.batching import BatchingEngine
from app.engines.chat_template import ChatTemplate
from app.engines.decoding import Vocabulary
from app.engines.local import LocalEngine
from app.engines.protocol import Engine, Sampling


def load(loader: Callable[..., Engine], folder: Path) -> Engine:
    return loader(exact(), str(folder), lambda progress: None)


@pytest.mark.parametrize("kind", list(tiny.KINDS))
def test_a_kind_answers_alike_in_both_engines(kind: str, tmp_path: Path) -> None:
    folder = tiny.KINDS[kind](tmp_path)
    answers = []
    for loader, engine_type in ((batching.load, BatchingEngine), (local.load, LocalEngine)):
        engine = load(loader, folder)
        try:
            assert isinstance(engine, engine_type)
            assert engine.context_window == 256
            outputs = ask(engine, "Hello, 今日は 🙂", Sampling(temperature=0, max_tokens=16))
        finally:
            engine.close()
        assert ending_of(outputs).reason in {"length", "stop"}
        answers.append((ids_of(outputs), text_of(outputs)))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("kind", list(tiny.KINDS))
def test_a_kind_streams_what_its_tokenizer_decodes_at_once(kind: str, tmp_path: Path) -> None:
    """B05, B07."""
    from app.engines import models

    tokenizer = models.load_tokenizer(tiny.KINDS[kind](tmp_path), exact())
    for text in tiny.TEXT:
        ids = tokenizer(text, add_special_tokens=False).input_ids
        vocabulary = Vocabulary(tokenizer)
        decoder = vocabulary.decoder()
        streamed = "".join(decoder.feed(vocabulary[token_id]) for token_id in ids) + decoder.end()
        assert streamed == tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("kind", list(tiny.ALONE))
def test_a_kind_that_paged_attention_does_not_support_runs_locally_and_says_so(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = load(batching.load, tiny.ALONE[kind](tmp_path))
    try:
        assert isinstance(engine, LocalEngine)
        why = f"generate, one at a time: paged attention does not support {kind}"
        assert engine.detail.startswith(why)
        assert len(ids_of(ask(engine, "Hello"))) > 0
    finally:
        engine.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_model_that_answers_otherwise_in_batches_runs_locally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that keeps something outside the cache runs without an error and writes nonsense."""
    from app.engines import paged

    monkeypatch.setattr(paged, "agrees", lambda model, prompt_ids, answer_ids: False)
    engine = load(batching.load, tiny.qwen(tmp_path))
    engine.close()
    assert isinstance(engine, LocalEngine)


def test_ids_that_plain_passes_would_not_choose_are_noticed(tmp_path: Path) -> None:
    import torch

    from app.engines import models, paged

    model = models.load_model(tiny.qwen(tmp_path), exact(), torch.float32)

    prompt = [5, 6, 7]
    best = model(torch.tensor([prompt])).logits[0, -1].argsort(descending=True).tolist()
    assert paged.agrees(model, prompt, best[:1])
    assert not paged.agrees(model, prompt, best[100:101])


def test_a_base_model_gets_a_plain_template_that_is_named(tmp_path: Path) -> None:
    """B19."""
    engine = load(local.load, tiny.gpt2(tmp_path))
    try:
        assert engine.detail.endswith("plain chat template")
        assert len(ids_of(ask(engine, "Hello"))) > 0
    finally:
        engine.close()


@pytest.mark.parametrize(("kind", "begins"), [("llama", True), ("gpt2", False)])
def test_the_plain_template_begins_as_the_models_own_texts_did(kind: str, begins: bool, tmp_path: Path) -> None:
    from app.engines import models

    tokenizer = models.load_tokenizer(tiny.KINDS[kind](tmp_path), exact())
    ids = ChatTemplate(tokenizer).encode(user("Hello <s>"))
    assert (ids[0] == tokenizer.bos_token_id) == begins
    assert ids.count(tokenizer.bos_token_id) == begins
