"""The case files: inputs that made real projects fail, with what is right."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "cases"


def case_file(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def model_script(model: str) -> dict[str, Any]:
    """One of the scripts of fake-models.json."""
    return next(entry for entry in case_file("fake-models.json")["models"] if entry["id"] == model)
