"""One password for all: signing in, the cookie, where it leads, signing out."""

import httpx
import pytest
from casefiles import case_file
from dom import parse
from serving import HTMX, Running, Serve

PASSWORD = "correct horse"
NEXT = case_file("open-redirects.json")["cases"]


def sign_in(rheo: Running, password: str = PASSWORD, **fields: str) -> httpx.Response:
    return rheo.client.post("/sign-in", data={"password": password, **fields})


@pytest.fixture
def locked(server: Serve) -> Running:
    return server(["word"], password=PASSWORD)


def test_without_a_cookie_every_address_leads_to_the_sign_in_page_or_is_refused(locked: Running) -> None:
    unknown = "0" * 24
    for path in ("/", f"/conversations/{unknown}", "/model-state", "/nothing"):
        response = locked.client.get(path)
        assert response.status_code == 303
        assert httpx.URL(response.headers["location"]).path == "/sign-in"
        assert httpx.URL(response.headers["location"]).params["next"] == path
        assert locked.client.get(path, headers=HTMX).status_code == 401
        assert locked.client.get(path, headers={"Accept": "application/json"}).status_code == 401
    stream = locked.client.get(f"/generations/{unknown}/stream", headers={"Accept": "text/event-stream"})
    assert stream.status_code == 401
    for path in ("/conversations", f"/conversations/{unknown}/deletion", f"/generations/{unknown}/cancellation"):
        assert locked.client.post(path, data={"text": "x"}).status_code == 401
    assert locked.messages() == []


def test_the_sign_in_page_its_files_and_the_probes_need_no_cookie(locked: Running) -> None:
    page = locked.page("/sign-in")
    named = [e.get("src") or e.get("href") or "" for e in page if e.tag in ("script", "link")]
    for path in [*(name for name in named if name.startswith("/static/")), "/health", "/ready"]:
        assert locked.client.get(path).status_code in (200, 503), path
    assert not page.test_ids("sidebar")


def test_g08_signing_in_gives_a_fresh_cookie_that_scripts_and_other_sites_do_not_get(locked: Running) -> None:
    locked.client.cookies.set("rheo_sign_in", "chosen-by-another", domain="127.0.0.1")
    response = sign_in(locked)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    (cookie,) = response.headers.get_list("set-cookie")
    assert "chosen-by-another" not in cookie
    flags = {part.strip().lower() for part in cookie.split(";")}
    assert {"httponly", "samesite=lax", "path=/"} <= flags
    assert "secure" not in flags  # this is plain http
    locked.client.cookies.clear()
    locked.client.cookies.set("rheo_sign_in", cookie.partition("=")[2].partition(";")[0])
    assert locked.client.get("/").status_code == 200


def test_g08_over_https_the_cookie_is_secure(locked: Running) -> None:
    response = locked.client.post("/sign-in", data={"password": PASSWORD}, headers={"X-Forwarded-Proto": "https"})
    assert "secure" in response.headers["set-cookie"].lower()


def test_g08_after_signing_out_the_old_cookie_is_dead(locked: Running) -> None:
    sign_in(locked)
    cookie = locked.client.cookies["rheo_sign_in"]
    assert locked.page("/").all("form", action="/sign-out")
    assert locked.client.get("/sign-out").status_code in (404, 405)
    assert locked.client.post("/sign-out").headers["location"] == "/sign-in"
    locked.client.cookies.set("rheo_sign_in", cookie, domain="127.0.0.1")
    assert locked.client.get("/").status_code == 303


def test_a_forged_cookie_opens_nothing(locked: Running) -> None:
    sign_in(locked)
    cookie = locked.client.cookies["rheo_sign_in"]
    for forged in ("", "x", cookie[:-1], cookie + "x", cookie.partition(".")[0], "x" + cookie):
        locked.client.cookies.clear()
        locked.client.cookies.set("rheo_sign_in", forged, domain="127.0.0.1")
        assert locked.client.get("/").status_code == 303


def test_a_sign_in_outlives_a_restart_and_ends_with_another_password(server: Serve) -> None:
    first = server(["word"], password=PASSWORD)
    sign_in(first)
    cookie = first.client.cookies["rheo_sign_in"]
    first.stop()
    for password, status in ((PASSWORD, 200), ("another", 303)):
        again = server(["word"], password=password)
        again.client.cookies.set("rheo_sign_in", cookie, domain="127.0.0.1")
        assert again.client.get("/").status_code == status
        again.stop()


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD + "x", PASSWORD.upper(), "\0", "日本語"])
def test_a_wrong_password_is_refused_and_the_way_kept(locked: Running, password: str) -> None:
    response = sign_in(locked, password, next="/conversations/x")
    assert response.status_code == 403
    assert "set-cookie" not in response.headers
    assert parse(response.text).one(name="next")["value"] == "/conversations/x"


def test_g14_guessing_is_slowed_down(locked: Running) -> None:
    answers = [sign_in(locked, f"guess {number}").status_code for number in range(30)]
    assert answers[:10] == [403] * 10
    assert set(answers[10:]) == {429}


@pytest.mark.parametrize("case", NEXT, ids=lambda case: case["next"] or "empty")
def test_g09_only_a_path_of_this_application_is_followed(locked: Running, case: dict[str, str]) -> None:
    # "/login" stands for the page on which one signs in.
    asked = case["next"].replace("/login", "/sign-in")
    expected = {"start": "/", "start or /conversations": "/"}.get(case["goes_to"], case["goes_to"])
    assert sign_in(locked, next=asked).headers["location"] == expected


@pytest.mark.parametrize(
    "path",
    [
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        " //evil.example",
        "javascript:alert(1)",
        "/\n//evil.example",
        "http:/evil.example",
        "///evil.example",
        "http://[",
    ],
)
def test_g09_no_other_spelling_of_another_site_is_followed(locked: Running, path: str) -> None:
    assert sign_in(locked, next=path).headers["location"] == "/"


def test_the_address_that_was_asked_for_is_reached_with_its_query(locked: Running) -> None:
    asked = "/search?q=a%26b&page=2"
    page = locked.client.get(locked.client.get(asked).headers["location"])
    remembered = parse(page.text).one(name="next")["value"]
    assert sign_in(locked, next=remembered).headers["location"] == asked


def test_without_a_password_there_is_no_sign_in(shared: Running) -> None:
    assert shared.client.get("/sign-in").status_code == 404
    assert not shared.page("/").all("form", action="/sign-out")
