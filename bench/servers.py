"""Processes that are measured: each on a free port with a folder of its own, ended by whoever started it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parent.parent
START_S = 180.0
"""The first start of a machine converts the weights."""
STOP_S = 15.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running process that answers on a port. `started` is when it was begun, by `time.perf_counter`."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    started: float

    @property
    def database(self) -> Path:
        return self.folder / "data" / "rheo.db"

    def wait(self, path: str, pause_s: float = 0.02) -> float:
        """Wait until a path is answered with 200; seconds since the start."""
        while time.perf_counter() - self.started < START_S:
            if self.process.poll() is not None:
                raise RuntimeError(f"a measured server ended: {self.output()}")
            with suppress(OSError, urllib.error.URLError), self.get(path):
                return time.perf_counter() - self.started
            time.sleep(pause_s)
        raise RuntimeError(f"a measured server did not start: {self.output()}")

    def get(self, path: str) -> Any:
        return urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30)

    def output(self) -> str:
        return (self.folder / "output.log").read_text()[-2000:]


@contextmanager
def rheo(
    module: str = "app", cores: set[int] | None = None, script: list[dict[str, Any]] | None = None, **settings: object
) -> Iterator[Server]:
    """A process of Rheo, begun but not waited for; with a script it plays that. Settings by name without RHEO_."""
    with TemporaryDirectory(prefix="rheo-bench-") as name:
        folder = Path(name)
        if script is not None:
            (folder / "script.json").write_text(json.dumps({"models": script}))
            settings |= {"engine": "scripted", "script": folder / "script.json"}
        settings = {"port": free_port(), "data_dir": folder / "data"} | settings
        environment = {f"RHEO_{key.upper()}": str(value) for key, value in settings.items()}
        with _running(_module(module), folder, int(str(settings["port"])), environment, cores) as server:
            yield server


@contextmanager
def recipe(waiting: str | None = None) -> Iterator[Server]:
    """The published recipe as a process, begun but not waited for; `waiting` is its OMP_WAIT_POLICY."""
    with TemporaryDirectory(prefix="rheo-bench-") as name:
        port = free_port()
        environment = {"OMP_WAIT_POLICY": waiting} if waiting else {}
        with _running(_module("bench.recipe", str(port)), Path(name), port, environment) as server:
            yield server


@contextmanager
def process(command: Callable[[int], list[str]]) -> Iterator[Server]:
    """Any process that serves on the port that its command is made with, begun but not waited for."""
    with TemporaryDirectory(prefix="rheo-bench-") as name:
        port = free_port()
        with _running(command(port), Path(name), port, {"OMP_WAIT_POLICY": "PASSIVE"}) as server:
            yield server


def free_port() -> int:
    """A port of this machine's loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def plain_environment() -> dict[str, str]:
    """This process's environment without what would change what is measured."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("RHEO_", "OMP_"))}
    return ours | {"HF_HUB_OFFLINE": "1"}


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process that we started."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _module(*words: str) -> list[str]:
    return [sys.executable, "-m", *words]


@contextmanager
def _running(
    command: list[str], folder: Path, port: int, environment: dict[str, str], cores: set[int] | None = None
) -> Iterator[Server]:
    with (folder / "output.log").open("ab") as log, pinned(cores):
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=plain_environment() | environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield Server(process, port, folder, time.perf_counter())
    finally:
        stop(process)


@contextmanager
def pinned(cores: set[int] | None) -> Iterator[None]:
    """Keep this thread, and what it starts, on these cores."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
