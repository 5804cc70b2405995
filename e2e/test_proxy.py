"""Behind a real nginx with a default `proxy_pass`: text comes as it is made, also under a URL prefix."""

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chat import Chat
from nginx import NGINX, Nginx
from playwright.sync_api import Page, expect
from rheo import Rheo

WORDS = [f"w{number} " for number in range(40)]
SCRIPT = [{"id": "words", "delay_ms": 100, "steps": WORDS}]
TAKES_S = 4.0

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is missing (Debian: apt-get install nginx-light)")

StartNginx = Callable[..., Nginx]


@pytest.fixture
def start_nginx(tmp_path: Path) -> Iterator[StartNginx]:
    running: list[Nginx] = []

    def start(server: str, http: str = "") -> Nginx:
        running.append(Nginx(tmp_path / f"nginx{len(running)}", server, http))
        return running[-1]

    yield start
    for nginx in running:
        nginx.close()


def converse(page: Page, url: str) -> None:
    """A whole visit: a first answer that streams, a second turn, another name, static files, deletion."""
    chat = Chat(page)
    responses: list[tuple[int, str]] = []
    page.on("response", lambda response: responses.append((response.status, response.url)))
    chat.open(f"{url}/").ask("To be renamed")
    assert chat_streams(chat) > TAKES_S / 2
    expect(page).to_have_url(f"{url}/conversations/{page.url.rpartition('/')[2]}")
    page.reload()
    assert chat.text().split() == "".join(WORDS).split()
    chat.ask("And more")
    expect(chat.answers).to_have_count(2)
    chat.wait("finished", timeout_s=30)
    choose(page, "Rename")
    page.get_by_label("Title", exact=True).fill("Another name")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_test_id("conversation-title")).to_have_text("Another name")
    choose(page, "Delete")
    expect(page.get_by_test_id("conversation-link")).to_have_count(0)
    expect(page).to_have_url(re.compile(re.escape(f"{url}/?trashed=")))
    assert [response for response in responses if response[0] >= 400] == []
    static = [address for _, address in responses if "/static/" in address]
    assert len(static) > 3
    assert all(address.startswith(f"{url}/static/") for address in static)


def choose(page: Page, item: str) -> None:
    """From the menu of the only conversation."""
    page.get_by_test_id("sidebar").get_by_role("listitem").hover()
    page.get_by_role("button", name="More about").click()
    page.locator(".menu").get_by_text(item, exact=True).click()


def chat_streams(chat: Chat) -> float:
    """The seconds from the first word to the end, watched in the page."""
    chat.wait_for_text("w0 ", timeout_s=20)
    first = time.monotonic()
    lengths = set()
    while chat.answer.get_attribute("data-state") == "running":
        lengths.add(len(chat.text()))
        chat.page.wait_for_timeout(100)
    chat.wait("finished", timeout_s=30)
    assert len(lengths) > 5, f"the text came in {len(lengths)} parts"
    assert chat.text().split() == "".join(WORDS).split()
    return time.monotonic() - first


def test_a11_a_default_proxy_pass_streams_and_everything_works(start_rheo, start_nginx, page: Page) -> None:
    rheo: Rheo = start_rheo(SCRIPT)
    nginx: Nginx = start_nginx(f"location / {{ proxy_pass {rheo.url}; }}")
    converse(page, nginx.url)


@pytest.mark.parametrize("slash", ["", "/"], ids=["prefix left", "prefix taken away"])
def test_under_a_prefix_everything_works(start_rheo, start_nginx, page: Page, slash: str) -> None:
    rheo: Rheo = start_rheo(SCRIPT, root_path="/deep/chat")
    nginx: Nginx = start_nginx(f"location /deep/chat/ {{ proxy_pass {rheo.url}{slash}; }}")
    converse(page, f"{nginx.url}/deep/chat")


def test_gzip_holds_no_text_back(start_rheo, start_nginx, chat: Chat, page: Page) -> None:
    rheo: Rheo = start_rheo(SCRIPT)
    nginx: Nginx = start_nginx(
        f"location / {{ proxy_pass {rheo.url}; }}",
        "gzip on; gzip_types *; gzip_min_length 0; gzip_proxied any;",
    )
    chat.open(nginx.url).ask("Go")
    assert chat_streams(chat) > TAKES_S / 2


def test_an_idle_connection_is_kept_by_pings(start_rheo, start_nginx, chat: Chat) -> None:
    rheo: Rheo = start_rheo([{"id": "late", "steps": ["at ", {"sleep_s": 5}, "last"]}], ping_s=0.5)
    nginx: Nginx = start_nginx(f"location / {{ proxy_pass {rheo.url}; proxy_read_timeout 2s; }}")
    streams: list[str] = []
    chat.page.on("request", lambda request: streams.append(request.url) if "/stream?" in request.url else None)
    chat.open(nginx.url).ask("Go")
    chat.wait("finished", timeout_s=20)
    assert chat.text().strip() == "at last"
    assert len(streams) == 1


def test_a_name_of_the_proxys_own_must_be_known(start_rheo, start_nginx, chat: Chat) -> None:
    """nginx sends the name in `proxy_pass` as the Host: an `upstream` by name, or the visitor's own, is told."""
    strict: Rheo = start_rheo(SCRIPT)
    upstream = "upstream the_chat {{ server 127.0.0.1:{port}; }}"
    location = "location / { proxy_pass http://the_chat; }"
    refusing: Nginx = start_nginx(location, upstream.format(port=strict.port))
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(refusing.url, timeout=10)
    assert "RHEO_HOSTS" in refused.value.read().decode()
    refused.value.close()
    told: Rheo = start_rheo(SCRIPT, hosts="the_chat")
    nginx: Nginx = start_nginx(location, upstream.format(port=told.port))
    chat.open(nginx.url).ask("Go")
    assert chat_streams(chat) > TAKES_S / 2
