"""Who may ask for what, at every address: Host, where a write comes from, the owner, sizes, and the headers."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from dom import parse
from fastapi import Request
from serving import HTMX, Running, Serve
from sqlalchemy import text

SCRIPT = ["word", {"sleep_s": 600}]
LOCAL = ["localhost", "localhost:1", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:8000"]
HOSTILE = [
    "rebind.example:8000",
    "rebind.example",
    "localhost.rebind.example",
    "rebind.example.localhost",
    "127.0.0.1.rebind.example",
    "127.0.0.1@rebind.example",
    "localhost:8000@rebind.example",
    "localhost:8000:8000",
    "localhost:rebind",
    "localhost:",
    "[::1",
    "[::1]rebind.example",
    "[::2]",
    "::1",
    "0.0.0.0",
    "",
]


def addresses(rheo: Running) -> list[tuple[str, str]]:
    """One of every kind of address there is."""
    asset = next(e["href"] for e in rheo.page() if (e.get("href") or "").endswith("rheo.css"))
    turn = rheo.send()
    turn.running()
    return [
        ("GET", "/"),
        ("GET", turn.path),
        ("GET", f"{turn.path}/title"),
        ("GET", f"{turn.path}/tags"),
        ("GET", "/conversations"),
        ("GET", "/trash"),
        ("GET", "/sidebar"),
        ("GET", f"{turn.path}/share"),
        ("GET", "/shares"),
        ("GET", f"{turn.path}?message={turn.answer_id}"),
        ("GET", f"{turn.path}?deleted={turn.answer_id}"),
        ("GET", f"/messages/{turn.question_id}/revision"),
        ("GET", f"/messages/{turn.question_id}/comparison"),
        ("GET", turn.stream_path),
        ("GET", asset),
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/model-state"),
        ("GET", "/nothing"),
        ("POST", "/conversations"),
        ("POST", f"{turn.path}/messages"),
        ("POST", f"{turn.path}/title"),
        ("POST", f"{turn.path}/tags"),
        ("POST", f"{turn.path}/deletion"),
        ("POST", "/selection"),
        ("POST", "/restoration"),
        ("POST", "/trash/emptying"),
        ("POST", f"{turn.path}/shares"),
        ("POST", "/shares/nothing/revocation"),
        ("POST", f"/messages/{turn.question_id}/answers"),
        ("POST", f"/messages/{turn.question_id}/choice"),
        ("POST", f"/messages/{turn.question_id}/revision"),
        ("POST", f"/messages/{turn.question_id}/deletion"),
        ("POST", f"/messages/{turn.question_id}/restoration"),
        ("POST", f"/generations/{turn.generation_id}/cancellation"),
    ]


def state(rheo: Running) -> object:
    """Everything that a write could have changed; an answer that waits begins by itself."""
    return (
        [(row.id, row.title, row.updated_at) for row in rheo.conversations()],
        [(row.id, "active" if row.active else row.state, row.chosen, row.deleted_at) for row in rheo.messages()],
        [row.id for row in rheo.generations()],
    )


def raw(rheo: Running, request: str) -> str:
    """The head of the answer to bytes that no client library would send."""
    with closing(socket.create_connection(("127.0.0.1", rheo.port), 5)) as connection:
        connection.sendall(request.encode())
        connection.settimeout(5)
        return connection.recv(65536).decode("latin-1").partition("\r\n\r\n")[0]


@pytest.fixture(scope="module")
def every_address(shared: Running) -> list[tuple[str, str]]:
    return addresses(shared)


@pytest.mark.parametrize("host", HOSTILE)
def test_g01_no_address_answers_to_a_strange_host(
    shared: Running, every_address: list[tuple[str, str]], host: str
) -> None:
    before = state(shared)
    for method, path in every_address:
        headers = {"Host": host, "Origin": f"http://{host}"}
        response = shared.client.request(
            method, path, headers=headers, data={"text": "x", "title": "x"} if method == "POST" else None
        )
        assert response.status_code in (400, 403), (method, path)
    assert state(shared) == before


@pytest.mark.parametrize("host", LOCAL)
def test_g01_the_names_of_this_machine_work_with_any_port(shared: Running, host: str) -> None:
    for path in ("/", "/health"):
        assert shared.client.get(path, headers={"Host": host}).status_code == 200


def test_g01_names_that_the_owner_set_work_and_others_are_told_how(server: Serve) -> None:
    rheo = server(hosts="chat.example, Other.example")
    for host in ("chat.example", "CHAT.example:8443", "other.example"):
        assert rheo.client.get("/", headers={"Host": host}).status_code == 200
    refused = rheo.client.get("/", headers={"Host": "third.example"})
    assert refused.status_code == 403
    assert "RHEO_HOSTS" in parse(refused.text).text


@pytest.mark.parametrize(
    "hosts", ["", "Host: localhost\r\nHost: localhost\r\n", "Host: localhost\r\nHost: rebind.example\r\n"]
)
def test_g01_a_missing_or_second_host_is_refused(shared: Running, hosts: str) -> None:
    for path in ("/", "/health", "/static/x/rheo.css"):
        head = raw(shared, f"GET {path} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n")
        assert head.split()[1] in ("400", "403")


def test_g01_an_address_with_a_host_in_it_does_not_help(shared: Running) -> None:
    head = raw(shared, "GET http://localhost/ HTTP/1.1\r\nHost: rebind.example\r\nConnection: close\r\n\r\n")
    assert head.split()[1] in ("400", "403", "404")


FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    {"Sec-Fetch-Site": "Same-Origin-Not"},
    {"Sec-Fetch-Site": ""},
    {"Origin": "http://rebind.example"},
    {"Origin": "https://localhost.rebind.example"},
    {"Origin": "http://localhost@rebind.example"},
    {"Origin": "null"},
    {"Origin": "http://["},
    {"Origin": "http://[x]"},
    {"Origin": ""},
    {"Origin": "file://"},
]
OWN = [
    {},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1"},
    {"Origin": "http://127.0.0.1:8000"},
    {"Origin": "http://localhost:8000"},
    {"Origin": "http://[::1]:8000"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("kind", ["form", "multipart", "text", "json", "empty"])
def test_g03_what_another_site_sends_changes_nothing(
    shared: Running, every_address: list[tuple[str, str]], headers: dict[str, str], kind: str
) -> None:
    before = state(shared)
    fields = {"text": "x", "title": "x"}
    body = {
        "form": {"data": fields},
        "multipart": {"files": {name: (None, value) for name, value in fields.items()}},
        "text": {"content": '{"text":"x"}', "headers": {"Content-Type": "text/plain"}},
        "json": {"json": fields},
        "empty": {},
    }[kind]
    for method, path in every_address:
        if method == "POST":
            sent = {**body, "headers": {**headers, **body.get("headers", {})}}
            assert shared.client.post(path, **sent).status_code == 403, path
    assert state(shared) == before


@pytest.mark.parametrize("headers", OWN, ids=str)
def test_g03_what_this_site_sends_is_taken(shared: Running, headers: dict[str, str]) -> None:
    response = shared.client.post("/conversations", data={"text": "x", "submission": str(headers)}, headers=headers)
    assert response.status_code == 303


def test_g03_no_get_and_no_other_method_changes_anything(
    shared: Running, every_address: list[tuple[str, str]]
) -> None:
    before = state(shared)
    for method, path in every_address:
        if path.endswith("/stream"):
            continue
        for other in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
            response = shared.client.request(other, path)
            assert response.status_code < 500
            if method == "POST":
                assert response.status_code in (404, 405) or other == "GET", (other, path)
    assert state(shared) == before


def test_g05_what_is_not_yours_is_not_there(server: Serve) -> None:
    def by_header(request: Request) -> str:
        return request.headers.get("x-owner", "alice")

    rheo = server(SCRIPT, access=by_header)
    theirs = rheo.send("a secret of alice")
    theirs.running()
    unknown = "0" * 24
    before = state(rheo)
    for path, id_, fields in [
        ("/conversations/{}", theirs.conversation_id, None),
        ("/conversations/{}/title", theirs.conversation_id, None),
        ("/conversations/{}/tags", theirs.conversation_id, None),
        ("/conversations/{}/tags", theirs.conversation_id, {"add": "x"}),
        ("/generations/{}/stream", theirs.generation_id, None),
        ("/generations/{}/stream?after=1", theirs.generation_id, None),
        ("/conversations/{}/messages", theirs.conversation_id, {"text": "x"}),
        ("/conversations/{}/messages", theirs.conversation_id, {"text": ""}),
        ("/conversations/{}/title", theirs.conversation_id, {"title": "x"}),
        ("/conversations/{}/title", theirs.conversation_id, {"title": ""}),
        ("/conversations/{}/deletion", theirs.conversation_id, {}),
        ("/messages/{}/answers", theirs.question_id, {}),
        ("/messages/{}/answers", theirs.answer_id, {}),
        ("/messages/{}/choice", theirs.answer_id, {}),
        ("/messages/{}/revision", theirs.question_id, None),
        ("/messages/{}/revision", theirs.answer_id, None),
        ("/messages/{}/revision", theirs.question_id, {"text": "x"}),
        ("/messages/{}/comparison", theirs.answer_id, None),
        ("/messages/{}/deletion", theirs.question_id, {}),
        ("/messages/{}/restoration", theirs.question_id, {}),
        ("/generations/{}/cancellation", theirs.generation_id, {}),
    ]:
        for kind in ({"Accept": "text/html"}, {"Accept": "*/*"}, HTMX):
            foreign, missing = (
                rheo.client.request(
                    "GET" if fields is None else "POST",
                    path.format(which),
                    data=fields,
                    headers={**kind, "X-Owner": "bob"},
                )
                for which in (id_, unknown)
            )
            expected = 404 if fields is None or "" not in fields.values() else foreign.status_code
            if kind is HTMX and "stream" in path:
                expected = 200  # and nothing but "gone": told an error, a page would ask for ever
                assert foreign.text == "event: done\ndata: gone\n\n"
            assert foreign.status_code == missing.status_code == expected in (200, 404, 422), path
            assert foreign.text.replace(id_, unknown) == missing.text.replace(id_, unknown), path
            assert "alice" not in foreign.text
    assert "secret" not in rheo.client.get("/", headers={"X-Owner": "bob"}).text
    assert state(rheo) == before
    assert theirs.answer.state == "running"
    own = rheo.client.post("/conversations", data={"text": "bob's"}, headers={"X-Owner": "bob"}).headers["location"]
    for query in (f"?message={theirs.answer_id}", f"?deleted={theirs.question_id}"):
        page = rheo.client.get(own.partition("#")[0] + query, headers={"X-Owner": "bob", "Accept": "text/html"})
        assert page.status_code == 200
        assert "alice" not in page.text
        assert theirs.question_id not in page.text


def test_g05_the_same_sending_of_two_owners_makes_two_conversations(server: Serve) -> None:
    rheo = server(SCRIPT, access=lambda request: request.headers["x-owner"])
    made = {
        rheo.client.post("/conversations", data={"text": "x", "submission": "s"}, headers={"X-Owner": owner}).headers[
            "location"
        ]
        for owner in ("alice", "bob")
    }
    assert len(made) == 2


def test_g14_a_body_over_the_limit_is_refused_at_once_and_others_are_served(server: Serve) -> None:
    rheo = server(body_bytes=100_000)
    began = time.monotonic()
    for headers in ({}, HTMX):
        response = rheo.client.post("/conversations", data={"text": "x" * 200_000}, headers=headers)
        assert response.status_code == 413
        assert "0.1 MB" in parse(response.text).text
    assert time.monotonic() - began < 2
    assert rheo.messages() == []
    rheo.send("short").ended()


def test_g14_a_body_that_hides_its_length_is_counted(server: Serve) -> None:
    rheo = server(body_bytes=100_000)

    def chunks() -> Iterator[bytes]:
        yield b"text="
        for _ in range(50):
            yield b"x" * 10_000

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert rheo.client.post("/conversations", content=chunks(), headers=headers).status_code == 413
    assert rheo.messages() == []


@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data", "multipart/form-data; boundary=x", "application/json", "text/plain", "nonsense", ""],
)
def test_g14_a_body_that_is_no_form_is_refused_in_words(shared: Running, content_type: str) -> None:
    for content in (b"", b"\xff\xfe\x00", b"--x\r\n\r\n", b'{"text": "x"}'):
        response = shared.client.post("/conversations", content=content, headers={"Content-Type": content_type})
        assert response.status_code in (400, 415, 422)
        assert parse(response.text).all("main")


def test_g14_half_open_requests_keep_nobody_from_their_page(server: Serve) -> None:
    rheo = server()
    half = [socket.create_connection(("127.0.0.1", rheo.port)) for _ in range(300)]
    try:
        for connection in half:
            connection.sendall(b"POST /conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nte")
        began = time.monotonic()
        rheo.page("/")
        assert time.monotonic() - began < 5
    finally:
        for connection in half:
            connection.close()


def test_every_kind_of_answer_carries_the_security_headers(server: Serve) -> None:
    rheo = server(SCRIPT, body_bytes=10_000)
    got = [rheo.client.get(path) for method, path in addresses(rheo) if method == "GET" and "/stream" not in path]
    got.append(rheo.client.get("/", headers={"Host": "rebind.example"}))
    got.append(rheo.client.get("/static/x/nothing"))
    got.append(rheo.client.put("/"))
    got.append(rheo.client.post("/conversations", data={"text": "x" * 20_000}))
    got.append(rheo.client.post("/conversations", data={"text": ""}))
    got.append(rheo.client.post("/conversations", data={"text": "x"}))
    got.append(rheo.client.post("/conversations", data={"text": "x"}, headers={"Sec-Fetch-Site": "cross-site"}))
    with rheo.parts.database.write() as session:
        session.execute(text("ALTER TABLE conversations RENAME COLUMN updated_at TO hidden"))
    bugs = [rheo.client.get("/"), rheo.client.get("/", headers=HTMX)]
    with rheo.parts.database.write() as session:
        session.execute(text("ALTER TABLE conversations RENAME COLUMN hidden TO updated_at"))
    assert [response.status_code for response in bugs] == [500, 500]
    assert "sqlite" not in bugs[0].text.lower()
    with rheo.client.stream("GET", f"/generations/{rheo.generations()[0].id}/stream") as stream:
        check_headers(stream)
    for response in got + bugs:
        check_headers(response)


def check_headers(response: httpx.Response) -> None:
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "img-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "same-origin"
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in response.headers
