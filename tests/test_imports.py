"""Who may import whom: the table of the architecture, held against the source."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from app.schema import ROOT

# A package or module of ours → what it may import of ours, besides itself.
ALWAYS = {"app", "app.settings", "app.errors", "app.texts"}
DATABASE = {"app.database", "app.schema"}
CONVERSATIONS = DATABASE | {"app.conversations"}
# The catalog is the seam's front: it gives the engine that is loaded, once it is.
SEAMS = {"app.events.protocol", "app.engines.protocol", "app.engines.catalog"}
GENERATION = CONVERSATIONS | SEAMS | {"app.generation", "app.rendering", "app.metrics", "app.heap"}
ALLOWED: dict[str, set[str]] = {
    "app": set(),
    "app.errors": {"app.texts"},
    "app.texts": set(),
    "app.heap": set(),
    "app.settings": {"app.errors"},
    "app.metrics": ALWAYS,
    "app.bugs": ALWAYS,
    "app.access_log": ALWAYS | {"app.metrics"},
    "app.logs": ALWAYS | {"app.access_log"},
    "app.data_folder": ALWAYS,
    "app.database": ALWAYS,
    "app.schema": ALWAYS | {"app.database"},
    "app.integrity": ALWAYS,
    "app.backups": ALWAYS | DATABASE | {"app.integrity"},
    "app.maintenance": ALWAYS | DATABASE | {"app.backups", "app.integrity", "app.data_folder"},
    "app.engines": ALWAYS | {"app.heap"},
    "app.rendering": ALWAYS,
    "app.events": ALWAYS | DATABASE,
    "app.conversations": ALWAYS | DATABASE,
    "app.generation": ALWAYS | GENERATION,
    # What comes in as the settings of a chat is checked by the rules of steering.
    "app.transfer": ALWAYS | CONVERSATIONS | {"app.rendering", "app.generation.steering"},
    "app.web": ALWAYS | GENERATION | {"app.transfer", "app.bugs"},
    "app.api": ALWAYS | GENERATION | {"app.bugs"},
    "app.factory": {"app"},
    "app.model_server": {"app"},
    "app.server": ALWAYS | {"app.heap", "app.logs"},
    "app.__main__": {"app"},
}
# Packages of others → who alone may import them.
ONLY_IN = {
    "torch": {"app.engines"},
    "transformers": {"app.engines"},
    "fastapi": {"app.web", "app.api", "app.factory", "app.model_server", "app.server"},
    "starlette": {"app.web", "app.api", "app.bugs", "app.factory", "app.model_server", "app.server"},
    "httpx2": {"app.engines.remote"},
    "jinja2": {"app.web", "app.api", "app.factory"},
    "uvicorn": {"app.server"},
    # What is copied and checked may be any file, and must not be changed by being opened.
    "sqlite3": {"app.database", "app.conversations.search", "app.backups", "app.integrity"},
    "sqlalchemy.dialects": {"app.database", "app.conversations.search"},
    "alembic": {"app.schema"},
    "markdown_it": {"app.rendering"},
    "nh3": {"app.rendering"},
}
ANYWHERE_BELOW = {"app.factory", "app.model_server", "app.__main__"}
"""These may import all of ours."""

SOURCES = sorted((ROOT / "app").rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, module: str = "app.x") -> Iterator[tuple[int, str]]:
    """Every import of a module, also those within functions, as full names; line by line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            origin = ".".join(part for part in (base, node.module or "") if part)
            # "from app.engines import batching" imports a module, too.
            yield from ((node.lineno, f"{origin}.{name.name}") for name in node.names)


def within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def rule_of(module: str) -> str:
    """The longest entry of the table that this module belongs to."""
    return max((entry for entry in ALLOWED if within(module, {entry})), key=len)


def faults(module: str, source: str) -> list[str]:
    own = rule_of(module)
    found = []
    for line, name in imports(source, module):
        if within(name, {"app"}) and own not in ANYWHERE_BELOW:
            # "app" itself (the version) is not all that is below it.
            allowed = ALLOWED[own] - {"app"} | ({own} - {"app"})
            version = name in ("app", "app.__version__", "app.__file__")
            if not within(name, allowed) and not (version and "app" in ALLOWED[own]):
                found.append(f"{module}:{line} imports {name}")
        for package, places in ONLY_IN.items():
            if within(name, {package}) and not within(module, places):
                found.append(f"{module}:{line} imports {name}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_a_module_imports_only_what_its_place_allows(path: Path) -> None:
    assert faults(module_of(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("app.conversations.queries", "from app.generation import models"),
        ("app.conversations.queries", "def f():\n    import app.web.pages"),
        ("app.generation.runner", "from app.web.parts import Parts"),
        ("app.generation.recorder", "from app.events.table import TableEventLog"),
        ("app.engines.scripted", "from app.database import Database"),
        ("app.engines.scripted", "from app import rendering"),
        ("app.transfer.storing", "from app.generation import models"),
        ("app.conversations.queries", "from app.transfer import models"),
        ("app.rendering.markdown", "from ..engines import protocol"),
        ("app.web.pages", "import torch.nn"),
        ("app.generation.runner", "from fastapi import Request"),
        ("app.web.sign_ins", "from sqlalchemy.dialects import sqlite"),
        ("app.api.chat", "from app.web import pages"),
        ("app.settings", "from app.database import Database"),
        ("app.new_module", "from app.web import pages"),
    ],
)
def test_what_is_not_allowed_is_found(module: str, source: str) -> None:
    assert faults(module, source)


def test_the_version_is_all_that_is_in_the_package_itself() -> None:
    tree = ast.parse(Path(app.__file__).read_text(encoding="utf-8"))
    assert not list(imports(ast.unparse(tree)))


def test_the_application_starts_without_what_only_some_need() -> None:
    heavy = ["torch", "transformers", "alembic", "gguf", "safetensors", "httpx2"]
    code = f"import app.factory, app.server, sys; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_and_mistakes_answer_without_loading_the_application() -> None:
    code = "import app.__main__, sys; print([n for n in ['fastapi', 'sqlalchemy', 'jinja2'] if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
