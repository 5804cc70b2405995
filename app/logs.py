"""Where log lines go: to the terminal and, rotated, to the data folder. Never with what people wrote."""

import logging
import logging.handlers
from pathlib import Path

from app.access_log import request_id

FORMAT = "%(asctime)s %(levelname)s %(name)s [%(request)s]: %(message)s"
LARGEST_FILE = 5_000_000
FILES = 3


def write_logs(folder: Path) -> None:
    """Send every logger's lines to the terminal and to a folder's `rheo.log`; of requests to its `requests.log`."""
    folder.mkdir(parents=True, exist_ok=True)
    handlers = [logging.StreamHandler(), _file(folder / "rheo.log")]
    for handler in handlers:
        handler.addFilter(_with_request)
    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=handlers, force=True)
    requests, lines = logging.getLogger("rheo.requests"), _file(folder / "requests.log")
    lines.setFormatter(logging.Formatter('{"at": "%(asctime)s", "request": %(message)s}'))
    requests.handlers, requests.propagate = [lines], False
    for chatty in ("alembic", "httpx", "httpx2", "ContinuousBatchingLogger"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _file(path: Path) -> logging.Handler:
    return logging.handlers.RotatingFileHandler(
        path, maxBytes=LARGEST_FILE, backupCount=FILES, encoding="utf-8", errors="backslashreplace"
    )


def _with_request(record: logging.LogRecord) -> bool:
    record.request = request_id.get()
    return True
