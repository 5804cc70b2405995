"""Where log lines go: to the terminal and, rotated, to the data folder. Never with what people wrote."""

import logging
import logging.handlers
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LARGEST_FILE = 5_000_000
FILES = 3


def write_logs(folder: Path) -> None:
    """Send every logger's lines to the terminal and to `rheo.log` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = logging.handlers.RotatingFileHandler(
        folder / "rheo.log", maxBytes=LARGEST_FILE, backupCount=FILES, encoding="utf-8"
    )
    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=[logging.StreamHandler(), file], force=True)
    for chatty in ("alembic", "httpx", "ContinuousBatchingLogger"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
