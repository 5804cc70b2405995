"""The recipes of docs/api.md, as they stand there: in a browser on another site's page, by curl and by Python."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page
from rheo import Rheo

DOCS = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"<!-- recipe: (\w+) -->\n```\w+\n(.*?)```", DOCS, re.DOTALL))
PIECES = ["one ", "two\n", "\n", "  thrée ", {"bytes": "f09f"}, {"bytes": "9982"}, " end"]
SAID = "one two\n\n  thrée 🙂 end"


class Blank(BaseHTTPRequestHandler):
    """A page of another site with nothing in it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,>")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def rheo(start_shared: Callable[..., Rheo], site: str) -> Rheo:
    return start_shared([{"id": "double", "steps": PIECES, "delay_ms": 60}], origins=site)


def recipe(name: str, rheo: Rheo) -> str:
    return RECIPES[name].replace("http://127.0.0.1:8000", rheo.url)


@pytest.mark.parametrize(("name", "function"), [("fetch", "generate"), ("events", "generateByEvents")])
def test_f12_the_recipe_works_on_another_sites_page_and_on_our_own(
    page: Page, rheo: Rheo, site: str, name: str, function: str
) -> None:
    for address in (site, rheo.url):
        page.goto(address)
        shown = page.evaluate(
            f"""async () => {{
              {recipe(name, rheo)}
              const shown = [];
              await {function}("Hello?", (text) => shown.push(text));
              return shown;
            }}"""
        )
        assert "".join(shown) == SAID
        assert len(shown) > 2, "it came all at once"


def test_the_recipe_for_curl_shows_it_word_by_word(rheo: Rheo) -> None:
    curl = subprocess.Popen(["sh", "-c", recipe("curl", rheo)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert curl.stdout is not None
    got = [curl.stdout.read1(65536)]
    while piece := curl.stdout.read1(65536):
        got.append(piece)
    curl.communicate()
    assert b"".join(got).decode() == SAID
    assert len(got) > 2
    assert curl.returncode == 0


def test_the_recipe_for_python_prints_it(rheo: Rheo) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", recipe("python", rheo)], capture_output=True, check=True, timeout=30
    )
    assert done.stdout.decode() == SAID
