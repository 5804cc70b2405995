"""One loaded SmolLM2 for the whole session: loading it is most of what these tests cost."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs
import pytest

# Nothing may be asked of the network; read when transformers is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

from app.engines import local, weights
from app.engines.batching import BatchingEngine, load
from app.engines.local import LocalEngine
from app.engines.protocol import Progress
from app.settings import Settings


@pytest.fixture(scope="session")
def model_settings() -> Settings:
    """Settings with the user's own cache, so that the model is converted once and not in each run."""
    return Settings(cache_dir=Path(platformdirs.user_cache_dir("rheo")), stall_s=60)


@pytest.fixture(scope="session")
def progress() -> list[Progress]:
    """What the loading of `engine` told of its progress."""
    return []


@pytest.fixture(scope="session")
def engine(model_settings: Settings, progress: list[Progress]) -> Iterator[BatchingEngine]:
    loaded = load(model_settings, "smollm2", progress.append)
    assert isinstance(loaded, BatchingEngine)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def local_engine(model_settings: Settings) -> Iterator[LocalEngine]:
    """The same model, one answer at a time."""
    loaded = local.load(model_settings, "smollm2", lambda progress: None)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def tokenizer(model_settings: Settings) -> Any:
    """SmolLM2's own tokenizer."""
    folder = weights.prepare(model_settings, "smollm2", lambda progress: None)
    from app.engines import models

    return models.load_tokenizer(folder, model_settings)
