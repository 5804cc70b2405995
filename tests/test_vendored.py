"""Vendored files are exactly the ones their VENDORED.md names."""

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| `(?P<file>[^`]+)` \|.*\| `(?P<sha256>[0-9a-f]{64})` \|$", re.MULTILINE)


@pytest.mark.parametrize("folder", ["static/vendor", "e2e/vendor"])
def test_every_vendored_file_is_listed_and_unchanged(folder: str) -> None:
    listed = dict(ROW.findall((ROOT / folder / "VENDORED.md").read_text()))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (ROOT / folder).iterdir()
        if path.name != "VENDORED.md"
    }
    assert found == listed
