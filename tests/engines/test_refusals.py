"""What can't be run is refused in one clear sentence before any of it is loaded, and the process lives on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
from asking import ask, exact, ids_of

from app.engines import headers, local, memory, model_folder
from app.errors import AppError, Invalid, Unavailable

SHARED: dict[str, Path] = {}


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that loads, for this test to spoil."""
    if "qwen" not in SHARED:
        SHARED["qwen"] = tiny.qwen(tmp_path_factory.mktemp("whole"))
    return Path(shutil.copytree(SHARED["qwen"], tmp_path / "model"))


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test where weights are read in spite of the refusal."""
    from app.engines import models

    def read(*_: object) -> None:
        raise AssertionError("the weights were read")

    monkeypatch.setattr(models, "load_model", read)


def load(folder: Path | str, **settings: Any) -> Any:
    return local.load(exact(**settings), str(folder), lambda progress: None)


def change(folder: Path, file: str = "config.json", **values: Any) -> None:
    config = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**config, **values}))


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def without_tokenizer(folder: Path) -> None:
    for file in folder.glob("*token*"):
        file.unlink()


def encoder(folder: Path) -> None:
    change(folder, architectures=["BertForMaskedLM"], model_type="bert")


def translator(folder: Path) -> None:
    change(folder, architectures=["T5ForConditionalGeneration"], model_type="t5")


def own_code(folder: Path) -> None:
    change(folder, model_type="mine", architectures=["Mine"], auto_map={"AutoModelForCausalLM": "mine.Mine"})


def missing_shard(folder: Path) -> None:
    (folder / headers.INDEX).write_text(json.dumps({"weight_map": {"a": "model-00002-of-00002.safetensors"}}))


SPOILT: list[tuple[Callable[[Path], None], str]] = [
    (cut, r"model\.safetensors can't be used as a model; the file may be broken: 1,000 bytes are missing"),
    (lambda folder: (folder / "model.safetensors").write_bytes(b"no") and None, "its header can't be read"),
    (missing_shard, r"is not whole: model-00002-of-00002\.safetensors is missing"),
    (lambda folder: (folder / "config.json").write_text("{") and None, r"config\.json in .* can't be read"),
    (without_tokenizer, "holds no tokenizer"),
    (encoder, "does not write text: it is made as BertForMaskedLM"),
    (translator, "does not write text: it is made as T5ForConditionalGeneration"),
    (own_code, "program code of its own.* set RHEO_TRUST_REMOTE_CODE=1"),
]


@pytest.mark.parametrize(("spoil", "words"), SPOILT, ids=[words[:40] for _, words in SPOILT])
def test_a_folder_that_cannot_be_run_is_refused_before_its_weights_are_read(
    folder: Path, unloaded: None, spoil: Callable[[Path], None], words: str
) -> None:
    spoil(folder)
    with pytest.raises(Unavailable, match=words):
        load(folder)


def test_weights_that_are_missing_are_not_filled_with_random_numbers(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        Unavailable, match=r"not whole: 1 are missing, such as model\.layers\.1\.mlp\.up_proj\.weight"
    ):
        load(folder)


def test_a_model_too_large_for_the_free_memory_is_refused_with_the_numbers(
    folder: Path, unloaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free", lambda: 1e6)
    with pytest.raises(Unavailable, match=r"needs about 0\.0 GB of memory .* and 0\.0 GB are free"):
        load(folder)


@pytest.mark.parametrize(
    ("capabilities", "room", "dtype", "chosen"),
    [
        ({"avx2": True, "avx512_bf16": False, "amx_bf16": True}, 3, "auto", "bfloat16"),
        ({"avx2": True, "avx512_bf16": False, "amx_bf16": False}, 3, "auto", "float32"),
        ({"avx2": True}, 1.5, "auto", "bfloat16"),
        ({"avx2": True}, 3, "bfloat16", "bfloat16"),
        ({"bf16": True}, 3, "float32", "float32"),
    ],
    ids=["multiplied", "not-multiplied", "too-large-for-float32", "asked-for", "float32-asked-for"],
)
def test_auto_takes_the_numbers_that_the_processor_is_fast_in_where_they_fit(  # noqa: PLR0917  (a table)
    folder: Path, monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], room: float, dtype: str, chosen: str
) -> None:
    import torch

    from app.engines import models

    config = json.loads((folder / "config.json").read_text())
    in_bfloat16 = headers.safetensors(folder) * 2 + memory.cache_bytes(config, models.CACHE, 2)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(memory, "free", lambda: room * in_bfloat16)
    found = models.dtype_that_fits("tiny", folder, config, exact(dtype=dtype, device="cpu"))
    assert found == getattr(torch, chosen)


@pytest.mark.parametrize(("dtype", "needed"), [("float32", 4e9), ("bfloat16", 2e9)])
def test_the_memory_for_a_pickled_file_is_that_of_the_numbers_it_is_loaded_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, needed: float
) -> None:
    from app.engines import models

    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        file.truncate(2_000_000_000)
    config = json.loads((folder / "config.json").read_text()) | {"dtype": "float16"}
    monkeypatch.setattr(memory, "free", lambda: needed / 2)
    with pytest.raises(Unavailable, match=f"needs about {needed / 1e9:.1f} GB of memory for its weights"):
        models.dtype_that_fits("tiny", folder, config, exact(dtype=dtype, device="cpu"))


def test_the_memory_that_is_needed_is_that_of_weights_and_cache() -> None:
    config = {"num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576}
    assert memory.cache_bytes(config, 16_384, 2) == 2 * 30 * 3 * 64 * 16_384 * 2
    assert memory.cache_bytes({"n_layer": 2, "n_head": 4, "n_embd": 64}, 10, 4) == 2 * 2 * 64 * 10 * 4
    assert memory.cache_bytes({"text_config": config}, 1, 1) == 2 * 30 * 3 * 64
    assert memory.cache_bytes({"state_size": 16}, 16_384, 2) == 0
    with pytest.raises(Unavailable, match=r"big needs about 3\.0 GB .* weights and 2\.0 GB .* 4\.0 GB are free"):
        memory.check("big", 3e9, 2e9, 4e9)


def test_headers_count_what_the_model_holds(folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    assert headers.safetensors(folder) == sum(weights.numel() for weights in model.parameters())


def test_a_pickled_file_of_weights_is_read_without_running_it(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    engine = load(folder)
    assert ids_of(ask(engine, "Hello"))
    engine.close()

    class Harm:
        def __reduce__(self) -> Any:
            return (Path.touch, (folder / "harm",))

    torch.save({"a": Harm()}, folder / "pytorch_model.bin")
    with pytest.raises(Unavailable, match="can't be used; a file may be broken"):
        load(folder)
    assert not (folder / "harm").exists()


def test_code_that_a_tokenizer_brings_is_not_run(folder: Path) -> None:
    (folder / "mine.py").write_text("raise SystemExit('it was run')")
    without_tokenizer(folder)
    (folder / "vocab.txt").write_text("a")
    own = {"tokenizer_class": "MyTokenizer", "auto_map": {"AutoTokenizer": ["mine.MyTokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    with pytest.raises(Unavailable, match=r"tokenizer in .* program code of its own"):
        load(folder)


def test_code_that_a_model_brings_is_run_where_a_setting_says_so(folder: Path) -> None:
    own_code(folder)
    with pytest.raises(Unavailable, match="RHEO_TRUST_REMOTE_CODE=1"):
        model_folder.check(folder, trusted=False)
    assert model_folder.check(folder, trusted=True)["model_type"] == "mine"


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_told(folder: Path, unloaded: None, device: str) -> None:
    import torch

    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(Unavailable, match=f"RHEO_DEVICE={device}, but torch finds no such device"):
        load(folder, device=device)


@pytest.mark.parametrize("name", ["someone/unknown-model", "unknown"])
def test_a_name_that_is_not_in_the_cache_is_refused_without_a_network(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        Unavailable, match=f"no model {name} on this machine, and the Hugging Face hub can't be asked"
    ):
        load(name)


def test_a_name_in_the_hubs_cache_loads_without_a_network(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    place = cache / "models--someone--tiny"
    shutil.copytree(folder, place / "snapshots" / "1234")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("1234")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    engine = load("someone/tiny")
    assert engine.model == "someone/tiny"
    assert ids_of(ask(engine, "Hello"))
    engine.close()


def test_a_name_that_no_hub_would_take_is_refused() -> None:
    with pytest.raises(Invalid, match="There is no model"):
        load("nothing--here")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("GatedRepoError", "only to those who have accepted its terms there; set HF_TOKEN"),
        ("RepositoryNotFoundError", "There is no model someone/tiny: neither here nor, for all to see, on the hub"),
        ("HfHubHTTPError", "can't be fetched from the hub: no"),
    ],
)
def test_what_the_hub_says_is_told_in_words(fault: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx2
    import huggingface_hub

    def ask_hub(name: str, local_files_only: bool = False, **_: object) -> str:
        if local_files_only:
            raise huggingface_hub.errors.LocalEntryNotFoundError("no")
        answer = httpx2.Response(403, request=httpx2.Request("GET", "https://hub.test"))
        raise getattr(huggingface_hub.errors, fault)("no", response=answer)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", ask_hub)
    with pytest.raises((Invalid, Unavailable), match=words):
        load("someone/tiny")


def test_after_every_refusal_a_good_model_loads(folder: Path, tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "nowhere", "someone/unknown-model"):
        with pytest.raises(AppError):
            load(wrong)
    engine = load(folder)
    assert ids_of(ask(engine, "Hello"))
    engine.close()
