"""Who may come through the door: keys, other sites, other names; and what is told to those who may not."""

import httpx
import pytest
from serving import Running, Serve

from app.__main__ import main
from app.api.keys import Keys
from app.errors import Misconfigured
from app.settings import Settings

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
ADDRESSES = [("GET", "/v1/models"), ("POST", CHAT), ("POST", "/v1/completions"), ("POST", "/generate")]
SITE = "https://app.example"


def ready(server: Serve, **settings: object) -> Running:
    rheo = server(["one ", "two"], **settings)
    rheo.ready()
    return rheo


def keys(rheo: Running) -> Keys:
    return Keys(rheo.parts.database)


def asked(rheo: Running, key: str | None, path: str = CHAT) -> httpx.Response:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return rheo.client.post(path, json=BODY | {"text": "hi"}, headers=headers)


def test_the_first_key_closes_the_door_to_all_others_and_revoking_it_does_not_open_it(server: Serve) -> None:
    rheo = ready(server)
    assert asked(rheo, None).status_code == 200
    assert asked(rheo, "anything-at-all").status_code == 200
    secret = keys(rheo).make("notebook")
    assert asked(rheo, secret).status_code == 200
    for key in (None, "wrong", secret + "x", "two words"):
        response = asked(rheo, key)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        assert response.json()["error"]["code"] == "invalid_api_key"
    for method, address in [*ADDRESSES, ("POST", "/tokenize"), ("GET", "/v1/openapi.json"), ("POST", "/v1/nothing")]:
        assert rheo.client.request(method, address, content=b"{").status_code == 401, address
    assert rheo.client.get("/").status_code == 200
    keys(rheo).revoke("notebook")
    assert asked(rheo, secret).status_code == 401
    assert asked(rheo, None).status_code == 401


def test_a_password_for_the_page_closes_the_door_and_only_a_key_opens_it(server: Serve) -> None:
    rheo = ready(server, password="open sesame")
    assert asked(rheo, None).status_code == 401
    signed_in = rheo.client.post("/sign-in", data={"password": "open sesame"})
    assert rheo.client.get("/").status_code == 200
    assert signed_in.status_code == 303
    assert rheo.client.post(CHAT, json=BODY).status_code == 401
    assert asked(rheo, keys(rheo).make("a")).status_code == 200
    assert httpx.get(f"{rheo.url}/generations/x/stream").status_code == 401


def test_beyond_this_machine_a_key_is_needed_unless_it_is_said_otherwise(server: Serve) -> None:
    assert asked(ready(server, host="0.0.0.0", hosts=("127.0.0.1",), password="x"), None).status_code == 401
    assert asked(ready(server, host="0.0.0.0", hosts=("127.0.0.1",), open=True), None).status_code == 200


def test_f12_a_named_site_may_ask_and_its_browser_asks_first_without_a_key(server: Serve) -> None:
    rheo = ready(server, origins=(SITE,))
    secret = keys(rheo).make("site")
    preflight = {
        "Origin": SITE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    for address in (CHAT, "/generate"):
        allowed = rheo.client.options(address, headers=preflight)
        assert allowed.status_code in (200, 204)
        assert allowed.headers["access-control-allow-origin"] == SITE
        assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
        other = rheo.client.options(address, headers=preflight | {"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
        sent = {"Origin": SITE, "Sec-Fetch-Site": "cross-site", "Authorization": f"Bearer {secret}"}
        stream = rheo.client.post(address, json=BODY | {"text": "hi"}, headers=sent)
        assert stream.status_code == 200
        assert stream.headers["access-control-allow-origin"] == SITE
        refused = rheo.client.post(address, json=BODY, headers=sent | {"Origin": "https://other.example"})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
    # An error is told to the site, too, not only that something failed.
    assert "access-control-allow-origin" in rheo.client.post(CHAT, headers={"Origin": SITE}).headers
    assert rheo.client.post("/conversations", data={"text": "x"}, headers=sent).status_code == 403
    assert rheo.client.post("/tokenize", json={"prompt": "x"}, headers=sent).status_code == 403


def test_without_named_sites_no_site_may_ask(server: Serve) -> None:
    rheo = ready(server)
    for header in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": SITE}):
        refused = rheo.client.post("/generate", content=b'{"text": "x"}', headers=header)
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "forbidden"
    other_name = rheo.client.post(CHAT, json=BODY, headers={"Host": "rebind.example"})
    assert (other_name.status_code, other_name.json()["error"]["code"]) == (403, "forbidden")
    large = rheo.client.post(CHAT, content=b"x" * 4_000_001)
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")


def test_under_a_prefix_the_door_is_there_too(server: Serve) -> None:
    rheo = ready(server, root_path="/chat", password="x")
    secret = keys(rheo).make("a")
    for prefix in ("", "/chat"):
        assert asked(rheo, secret, f"{prefix}{CHAT}").status_code == 200
        assert asked(rheo, None, f"{prefix}/generate").status_code == 401


def test_keys_are_made_listed_and_revoked_by_the_command_while_the_server_runs(
    server: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rheo = ready(server)
    monkeypatch.setenv("RHEO_DATA_DIR", str(rheo.settings.data_dir))
    assert main(["key", "new", "note book"]) == 0
    told = capsys.readouterr().out
    secret = told.split()[-1]
    assert secret.startswith("rheo-")
    assert "only this once" in told
    assert asked(rheo, None).status_code == 401
    assert asked(rheo, secret).status_code == 200
    stored = b"".join(path.read_bytes() for path in rheo.settings.data_dir.glob("rheo.db*"))
    assert secret.encode() not in stored
    assert main(["key", "new", "note book"]) == 1
    assert capsys.readouterr().err.startswith("rheo: There is a key")
    assert main(["key", "revoke", "note book"]) == 0
    assert asked(rheo, secret).status_code == 401
    assert main(["key", "list"]) == 0
    listed = capsys.readouterr().out
    assert "note book" in listed
    assert "revoked" in listed
    assert secret not in listed
    assert main(["key", "revoke", "nobody"]) == 1
    assert main(["key", "eat", "nobody"]) == 1
    assert "key list" in capsys.readouterr().err
    assert asked(rheo, None).status_code == 401


@pytest.mark.parametrize("origin", ["*", "app.example", "https://app.example/", "https://app.example/x", "null"])
def test_what_is_no_site_can_not_be_named(origin: str) -> None:
    with pytest.raises(Misconfigured, match="RHEO_ORIGINS"):
        Settings.read({"RHEO_ORIGINS": f"https://fine.example, {origin}"})
