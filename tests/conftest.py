"""What every test may ask for: a running Rheo, or a process of it."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

# Nothing is asked of the network, and waiting threads leave the cores to others.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
from serving import Process, Running, Script, Serve, serving

from app.database import Database
from app.schema import upgrade


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all tables and nothing in them: migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("database") / "rheo.db"
    database = Database(f"sqlite:///{path}")
    upgrade(database)
    database.close()
    return path


@pytest.fixture
def server(tmp_path: Path, empty_database: Path) -> Iterator[Serve]:
    """Starts Rheo: `server(script=[…], **settings)`; all end with the test."""
    with _starting(lambda _: tmp_path, empty_database) as start:
        yield start


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, empty_database: Path
) -> Iterator[Running]:
    """One Rheo for all tests of a module that only look; it plays the module's `SCRIPT`, where there is one."""
    with _starting(lambda _: tmp_path_factory.mktemp("shared"), empty_database) as start:
        yield start(getattr(request.module, "SCRIPT", None))


@pytest.fixture
def process(tmp_path: Path, empty_database: Path) -> Iterator[Callable[..., Process]]:
    """`process(**settings)`: a real process of Rheo, not yet started; settings by their name without RHEO_.

    With `fresh=True` it has no data folder yet.
    """
    with ExitStack() as stack:

        def prepare(*, fresh: bool = False, **settings: str) -> Process:
            prepared = Process(tmp_path, settings)
            if not fresh and not prepared.data_dir.exists():
                prepared.data_dir.mkdir(mode=0o700)
                shutil.copy(empty_database, prepared.data_dir)
            stack.callback(prepared.close)
            return prepared

        yield prepare


@contextmanager
def _starting(folder: Callable[[int], Path], database: Path) -> Iterator[Serve]:
    numbers = count()
    with ExitStack() as stack:

        def start(script: Script = None, **settings: Any) -> Running:
            return stack.enter_context(serving(folder(next(numbers)), database, script, **settings))

        yield start
