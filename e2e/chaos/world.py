"""The server that is killed, the line that is cut, and what is stored: all on this machine, in one folder."""

import http.client
import json
import os
import random
import signal
import sqlite3
import time
import urllib.parse
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutting_proxy import CuttingProxy
from ports import reserved_port
from rheo import Rheo

THREADS = 4
QUEUE = 3
DELAY_MS = 20
LONGEST_EXIT_S = 10.0


@dataclass(frozen=True)
class Stored:
    """One message as it is in the database."""

    id: str
    role: str
    text: str
    state: str
    error: str | None
    parent: str | None
    restarts: int
    """How often its newest run went on after a restart."""


class World:
    """One data folder with its server, behind a line that can be cut."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "script.json"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RHEO_")}
        chosen = {
            "DATA_DIR": str(folder / "data"),
            "ENGINE": "scripted",
            "SCRIPT": str(self._script),
            "PORT": str(reserved_port()),
            "THREADS": str(THREADS),
            "QUEUE": str(QUEUE),
            "PING_S": "1",
            "EXPIRY_S": "5",
            "MAX_TOKENS": "100000",
        }
        environment |= {f"RHEO_{name}": value for name, value in chosen.items()}
        self.rheo = Rheo(folder, environment, int(chosen["PORT"]))
        self.database = folder / "data" / "rheo.db"
        self.play({"echo": True})
        self.rheo.start()
        self.line = CuttingProxy(self.rheo.port, lambda _: None)

    def play(self, entry: dict[str, Any]) -> None:
        """From the next start on, the engine plays this."""
        model = {"id": "chaos", "delay_ms": DELAY_MS, "context_window": 1_000_000, **entry}
        self._script.write_text(json.dumps({"models": [model]}), encoding="utf-8")

    def end(self, how: signal.Signals) -> float:
        """End the server by a signal; the seconds that it took."""
        began = time.monotonic()
        self.rheo.stop(how)
        return time.monotonic() - began

    def close(self) -> None:
        self.line.close()
        self.rheo.stop()

    def post(self, path: str, **fields: str) -> str | None:
        """Post past the line, as a browser without scripts; where it leads, or None where nobody answered."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.rheo.port, timeout=10)) as connection:
            try:
                body = urllib.parse.urlencode(fields)
                connection.request("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded"})
                response = connection.getresponse()
            except (OSError, http.client.HTTPException):
                return None
            return response.headers.get("location") if response.status == 303 else None

    def integrity(self) -> str:
        """What SQLite says of its file: "ok", or what is broken."""
        with closing(sqlite3.connect(self.database, timeout=10)) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            found += [f"orphan in {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")]
        return "; ".join(found)

    def stored(self, conversation_ids: Iterable[str]) -> dict[str, Stored]:
        """All messages of these conversations, by id."""
        ids = list(conversation_ids)
        marks = ", ".join("?" * len(ids))
        with closing(sqlite3.connect(self.database, timeout=10)) as connection:
            rows = connection.execute(
                "SELECT id, role, text, state, error, parent_id, coalesce((SELECT restarts FROM generations "
                "WHERE message_id = messages.id ORDER BY generations.id DESC LIMIT 1), 0) "
                f"FROM messages WHERE conversation_id IN ({marks})",
                ids,
            ).fetchall()
        return {row[0]: Stored(*row) for row in rows}


def question(chance: random.Random, mark: str, words: int) -> str:
    """A question that the engine says back; no two are alike, and every word tells its place."""
    spice = ["", "", "é", "日本", "🙂", "👩‍🚀", "नमस्ते"]
    return " ".join(f"{mark}-{number}{chance.choice(spice)}" for number in range(words))
