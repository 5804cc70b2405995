"""A running process of Rheo with its own port and folder."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
START_S = 20
GONE = "Failed to load resource|ERR_|network error|Failed to fetch"
"""What a browser writes into its console where nobody answers, or a line is cut."""


@dataclass
class Rheo:
    """A running process of Rheo with its own port and folder."""

    folder: Path
    environment: dict[str, str]
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Rheo":
        assert self.process is None or self.process.poll() is not None, "it runs already"
        with (self.folder / "output.log").open("ab") as log:
            command = [sys.executable, "-m", "app", "serve"]
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with suppress(OSError):
                self.health()
                return self
            time.sleep(0.02)
        raise AssertionError(f"Rheo did not start: {self.output()}")

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/health", timeout=5) as response:
            answer: dict[str, Any] = json.load(response)
            return answer

    def output(self) -> str:
        return (self.folder / "output.log").read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(20)
