"""Which weights exactly: found by their files, each read once."""

import hashlib
import os
from pathlib import Path

import pytest

from app.engines.digests import Digests
from app.engines.revision import UNKNOWN, Revision


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def weights(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.safetensors").write_bytes(content)
    return folder


def test_a_file_is_named_by_its_own_hash_and_several_by_all_of_them(tmp_path: Path) -> None:
    digests = Digests(tmp_path / "cache")
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    assert Revision(digests, tmp_path / "a.gguf")() == sha(b"GGUF")
    assert Revision(digests, weights(tmp_path / "one", model=b"x"))() == sha(b"x")
    two = Revision(digests, weights(tmp_path / "two", model=b"x", more=b"y"))()
    assert two == Revision(digests, weights(tmp_path / "elsewhere", model=b"x", more=b"y"))()
    assert two != Revision(digests, weights(tmp_path / "other", model=b"x", more=b"z"))()


def test_a_model_of_the_hub_is_named_by_its_commit_and_a_lora_by_both(tmp_path: Path) -> None:
    digests = Digests(tmp_path / "cache")
    base = weights(tmp_path / "snapshots" / ("0123456789" * 4), model=b"x")
    assert Revision(digests, base)() == f"commit:{'0123456789' * 4}"
    lora = weights(tmp_path / "lora", adapter_model=b"l")
    assert Revision(digests, lora, base)() == f"commit:{'0123456789' * 4}+{sha(b'l')}"


def test_what_is_known_is_not_read_again_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = weights(tmp_path / "one", model=b"first") / "model.safetensors"
    read: list[float] = []
    assert Digests(tmp_path / "cache").of(file, read.append) == sha(b"first")[7:]
    assert Digests(tmp_path / "cache").of(file, read.append) == sha(b"first")[7:]
    assert read == [1.0]
    file.write_bytes(b"other")
    os.utime(file, ns=(1, 1))
    assert Digests(tmp_path / "cache").of(file, read.append) == sha(b"other")[7:]
    assert read == [1.0, 1.0]


def test_a_cache_that_can_not_be_written_costs_time_and_not_the_start(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert Revision(Digests(tmp_path / "cache"), weights(tmp_path / "one", model=b"x"))() == sha(b"x")
    assert Revision(Digests(tmp_path / "cache"), tmp_path / "nowhere.gguf")() in (
        UNKNOWN,
        sha(hashlib.sha256().digest()),
    )
