"""What the README says of settings is what there is, and its links lead somewhere."""

import re
from typing import Any

from app.schema import ROOT
from app.settings import PREFIX, Settings


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def table() -> dict[str, tuple[str, str]]:
    """The settings table: name → default and meaning."""
    block = readme().partition("<!-- settings -->")[2].partition("<!-- /settings -->")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", block, re.MULTILINE)
    assert len({name for name, _, _ in rows}) == len(rows), "a setting stands there twice"
    return {name: (default, meaning) for name, default, meaning in rows}


def default_of(field: Any) -> str:
    if field.default_factory is not None or field.default in (None, "", (), False):
        return "–"
    return ", ".join(field.default) if isinstance(field.default, tuple) else str(field.default)


def test_every_setting_is_in_the_readme_and_nothing_else() -> None:
    assert list(table()) == [PREFIX + name.upper() for name in Settings.model_fields]


def test_every_setting_is_told_with_its_default_and_its_help() -> None:
    told = table()
    for name, field in Settings.model_fields.items():
        assert told[PREFIX + name.upper()] == (default_of(field), field.description)


def test_every_setting_that_is_named_anywhere_exists() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if path.name in ("architecture.md", "contract.md"):
            continue  # these speak of parts that are still to come
        named = set(re.findall(r"\bRHEO_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8")))
        assert named - known == set(), path.name


def test_every_page_that_the_readme_links_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", readme()):
        assert (ROOT / target).exists(), target
