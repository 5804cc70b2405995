"""A large export, made by rule, and what bringing it in costs: `python -m bench.imports [--mb 300] [--export FILE]`.

Not one of the timed parts: it tells the server's memory at its highest, the report, and that a second import of the
same adds nothing.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil

from bench.servers import Server, rheo

MESSAGES = 40
CHARS = 1200
LARGEST = 20_000_000
"""One conversation of so many bytes is among them."""
_TEXT = (
    "river stone lantern the a of and walks under café naïve Straße Öl voilà "
    "η θάλασσα είναι ήρεμη 京都の雨の日 散歩 東京 北京的雨天 서울의 밤 def return print(x) {} [1, 2] 0.5 🚀 👩‍🚀"
)
_WORDS = _TEXT.split()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.imports", description=__doc__)
    parser.add_argument("--mb", type=int, default=300, help="size of the export (default: 300)")
    parser.add_argument("--export", type=Path, help="only write the export, into this file")
    options = parser.parse_args()
    if options.export:
        print(f"{write(options.export, options.mb):,} conversations in {options.export}")
        return
    with TemporaryDirectory(prefix="rheo-bench-") as folder:
        path = Path(folder) / "conversations.json"
        write(path, options.mb)
        with rheo(engine="scripted", import_bytes=2 * path.stat().st_size) as server:
            server.wait("/ready")
            process = psutil.Process(server.process.pid)
            before = process.memory_info().rss
            for name in ("first", "second"):
                _measure(server, process, before, path, name)


def write(path: Path, megabytes: int, largest: int = LARGEST) -> int:
    """Write a ChatGPT export of about this size; how many conversations are in it. One of them is large."""
    chosen = random.Random(7)
    number = size = 0
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        while size < megabytes * 1_000_000:
            chars = largest // MESSAGES if number == 5 else CHARS
            told = json.dumps(_conversation(number, chars, chosen), ensure_ascii=number % 3 == 0)
            file.write(",\n" * bool(number) + told)
            size += len(told.encode())
            number += 1
        file.write("]")
    return number


def _conversation(number: int, chars: int, chosen: random.Random) -> dict[str, Any]:
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": ["0"]}}
    for place in range(MESSAGES):
        text = " ".join(chosen.choices(_WORDS, k=chars // 6))
        nodes[str(place)] = {
            "id": str(place),
            "parent": str(place - 1) if place else "root",
            "children": [str(place + 1)] if place + 1 < MESSAGES else [],
            "message": {
                "id": str(place),
                "author": {"role": "assistant" if place % 2 else "user", "name": None, "metadata": {}},
                "create_time": 1700000000.5 + number * 1000 + place,
                "content": {"content_type": "text", "parts": [text]},
                "status": "finished_successfully",
                "weight": 1.0,
                "metadata": {"model_slug": "demo-large"} if place % 2 else {},
                "recipient": "all",
            },
        }
    return {
        "title": f"Conversation {number}",
        "create_time": 1700000000.0 + number * 1000,
        "update_time": 1700000100.0 + number * 1000,
        "mapping": nodes,
        "current_node": str(MESSAGES - 1),
        "conversation_id": f"bench-{number}",
    }


def _measure(server: Server, process: psutil.Process, before: int, path: Path, name: str) -> None:
    highest, slowest, began, busy = before, 0.0, time.perf_counter(), _busy(process)
    url = f"http://127.0.0.1:{server.port}"
    with httpx.Client(base_url=url, timeout=600) as client:
        boundary = "bench-imports"
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        location = client.post("/imports", content=_body(path, boundary), headers=headers).headers["location"]
        uploaded = time.perf_counter() - began
        report: dict[str, Any] = {"state": "running"}
        while report["state"] == "running":
            time.sleep(0.2)
            highest = max(highest, process.memory_info().rss)
            asked = time.perf_counter()
            client.get("/").raise_for_status()
            slowest = max(slowest, time.perf_counter() - asked)
            report = (
                client.get(f"{location}/report.json").json()
                if "import-report" in client.get(location).text
                else report
            )
    seconds = time.perf_counter() - began
    told = ", ".join(f"{key} {report[key]:,}" for key in ("imported", "updated", "skipped", "messages"))
    busy = _busy(process) - busy
    print(
        f"{name} import of {path.stat().st_size / 1e6:.0f} MB: {told}; errors: {report['error']}; {seconds:.0f} s, "
        f"of which upload {uploaded:.1f} s; {busy:.0f} s of a core; memory {before / 1e6:.0f} MB before, "
        f"{highest / 1e6:.0f} MB at its highest (+{(highest - before) / 1e6:.0f} MB); "
        f"slowest page meanwhile {slowest * 1000:.0f} ms",
        flush=True,
    )


def _busy(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _body(path: Path, boundary: str) -> Iterator[bytes]:
    begin = f"--{boundary}\r\nContent-Disposition: form-data; name="
    yield f'{begin}"action"\r\n\r\nstart\r\n'.encode()
    yield f'{begin}"file"; filename="{path.name}"\r\n\r\n'.encode()
    with path.open("rb") as file:
        while chunk := file.read(1_000_000):
            yield chunk
    yield f"\r\n--{boundary}--\r\n".encode()


if __name__ == "__main__":
    main()
