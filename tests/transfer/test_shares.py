"""Sharing over HTTP: a copy that stays as it was, for whoever has its address, without scripts, until revoked."""

import re
from urllib.parse import urlsplit

import httpx
import pytest
from casefiles import FOLDER, case_file
from dom import Element, parse
from serving import HTMX, Running, Serve, Turn
from sqlalchemy import update

from app.conversations.models import Conversation, Message
from app.transfer.models import Share

TITLES = [case["title"] for case in case_file("titles.json")["cases"] if case["id"].startswith("G07")]
ATTACK = (FOLDER / "markdown-xss.md").read_text(encoding="utf-8")
SCRIPT = {"steps": ["An answer."]}


def talk(rheo: Running, question: str = "Why?", answer: str = "") -> Turn:
    """A conversation of one turn that has ended; with `answer` for what the model said."""
    turn = rheo.send(question)
    turn.ended()
    if answer:
        change(rheo, turn, text=answer, html=None)
    return turn


def change(rheo: Running, turn: Turn, **values: object) -> None:
    with rheo.parts.database.write() as session:
        session.execute(update(Message).where(Message.id == turn.answer_id).values(**values))


def share(rheo: Running, turn: Turn, leaf: str = "") -> str:
    """Share a conversation as the page does without scripts; the path that its link leads to."""
    response = rheo.client.post(f"{turn.path}/shares", data={"leaf": leaf})
    assert response.status_code == 303, response.text
    address, _, mark = response.headers["location"].partition("#")
    entry = rheo.page(address).one(id_=mark)
    link = entry.test_id("share-link")
    assert link["href"] == link.text
    assert link["href"].startswith(rheo.url)
    return urlsplit(link["href"]).path


def said(page: Element) -> list[str]:
    return [message.test_id("message-body").body.strip() for message in page.test_ids("message")]


def test_what_is_shared_stays_as_it_was(shared: Running) -> None:
    rheo = shared
    turn = talk(rheo, "First?")
    path = share(rheo, turn)
    before = rheo.client.get(path).text
    assert said(parse(before)) == ["First?", "An answer."]
    assert parse(before).one("h1").text == parse(before).one("title").text == "First?"
    rheo.client.post(f"{turn.path}/title", data={"title": "Another title"})
    rheo.send("Second?", turn.conversation_id).ended()
    rheo.client.post(f"/messages/{turn.question_id}/answers")
    rheo.client.post(f"/messages/{turn.answer_id}/deletion")
    assert rheo.client.get(path).text == before
    change(rheo, turn, text="changed", deleted_at=None)
    assert rheo.client.get(path).text == before


def test_the_branch_that_is_seen_is_shared_up_to_where_it_is_seen(server: Serve) -> None:
    rheo = server({"steps": ["Hello"], "echo": True})
    turn = talk(rheo, "First")
    rheo.client.post(f"/messages/{turn.question_id}/answers")
    chosen = rheo.send("After the newer answer", turn.conversation_id)
    chosen.ended()
    change(rheo, turn, text="the older answer", html=None)
    assert said(rheo.page(share(rheo, turn)))[2:] == ["After the newer answer"] * 2
    older = rheo.page(f"{turn.path}?message={turn.answer_id}")
    leaf = older.one(id_="leaf")["value"]
    assert leaf == turn.answer_id
    assert older.test_id("open-share")["href"] == f"{turn.path}/share?leaf={leaf}"
    form = rheo.page(f"{turn.path}/share?leaf={leaf}").one(id_="dialog-form")
    assert form.one("input", name="leaf")["value"] == leaf
    assert said(rheo.page(share(rheo, turn, leaf))) == ["First", "the older answer"]
    # What came below it since the page was loaded has not been seen.
    assert said(rheo.page(share(rheo, turn, turn.question_id))) == ["First"]


def test_a_branch_that_was_deleted_meanwhile_is_not_shared_as_another(shared: Running) -> None:
    rheo = shared
    turn = talk(rheo)
    rheo.client.post(f"/messages/{turn.answer_id}/deletion")
    for headers in ({}, HTMX):
        response = rheo.client.post(f"{turn.path}/shares", data={"leaf": turn.answer_id}, headers=headers)
        assert response.status_code == 409
        assert "deleted" in parse(response.text).text
    rheo.client.post(f"/messages/{turn.question_id}/deletion")
    response = rheo.client.post(f"{turn.path}/shares")
    assert response.status_code == 422
    assert "nothing in this conversation yet" in parse(response.text).one(role="alert").text
    assert not [row for row in shares(rheo) if row.conversation_id == turn.conversation_id]


def shares(rheo: Running) -> list[Share]:
    with rheo.parts.database.read() as session:
        return list(session.query(Share).order_by(Share.id))


def test_a_shared_page_runs_nothing_and_tells_nobody(shared: Running) -> None:
    rheo = shared
    turn = talk(rheo, answer=f"{ATTACK}\n\n![a picture](https://x.example/p.png)\n\n```py\nx = 1\n```")
    response = rheo.client.get(share(rheo, turn))
    check_static(response)
    page = parse(response.text)
    assert not page.all("img")
    assert "https://x.example/p.png" in [link.get("href") for link in page.all("a")]
    assert page.all("pre")
    (style,) = [link for link in page.all("link") if link["rel"] == "stylesheet"]
    assert rheo.client.get(style["href"]).status_code == 200


def check_static(response: httpx.Response) -> None:
    headers = response.headers
    assert "script-src 'none'" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "form-action 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert "noindex" in headers["x-robots-tag"]
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in headers
    for element in parse(response.text):
        assert element.tag not in ("script", "iframe", "object", "embed", "form", "base", "style", "noscript")
        assert not any(re.match(r"on|hx-|style$", name) for name in element.attributes), element.attributes
        assert not (element.get("href") or "").lower().lstrip().startswith(("javascript:", "data:"))


@pytest.mark.parametrize("title", TITLES)
def test_g07_title_and_question_are_text_on_a_shared_page(shared: Running, title: str) -> None:
    turn = talk(shared, f"{title} asked")
    shared.client.post(f"{turn.path}/title", data={"title": title})
    response = shared.client.get(share(shared, turn))
    check_static(response)
    page = parse(response.text)
    assert page.one("h1").text == page.one("title").text == " ".join(title.split())
    assert said(page)[0] == f"{title} asked".strip()


def test_what_was_not_meant_for_others_is_not_on_the_page(server: Serve) -> None:
    rheo = server(SCRIPT, system_prompt="the owner's secret prompt")
    turn = talk(rheo, answer="<think>\nsecret thoughts\n</think>\n\nOpenly said.")
    change(rheo, turn, state="failed", ending="error", error="no room on /home/somebody")
    rheo.client.post(f"/messages/{turn.answer_id}/rating", data={"rating": "bad", "note": "secret note"})
    with rheo.parts.database.write() as session:
        session.get_one(Conversation, turn.conversation_id).steering = {"system": "a secret system prompt"}
    text = rheo.client.get(share(rheo, turn)).text
    assert "Openly said." in text
    assert "failed" in text
    for hidden in ("secret", "somebody", turn.conversation_id, turn.question_id, turn.answer_id, "local"):
        assert hidden not in text


def test_an_answer_that_still_comes_is_left_out(server: Serve) -> None:
    rheo = server(["word ", {"sleep_s": 600}])
    turn = rheo.send("Well?")
    turn.running("word")
    assert said(rheo.page(share(rheo, turn, turn.answer_id))) == ["Well?"]


def test_with_a_password_only_what_is_shared_is_open(server: Serve) -> None:
    rheo = server(SCRIPT, password="x")
    rheo.client.cookies = httpx.Cookies(
        {"rheo_sign_in": rheo.client.post("/sign-in", data={"password": "x"}).cookies["rheo_sign_in"]}
    )
    turn = talk(rheo)
    path = share(rheo, turn)
    with httpx.Client(base_url=rheo.url, headers={"Accept": "text/html"}) as stranger:
        response = stranger.get(path)
        assert response.status_code == 200
        check_static(response)
        assert said(parse(response.text)) == ["Why?", "An answer."]
        (style,) = [link["href"] for link in parse(response.text).all("link") if link["rel"] == "stylesheet"]
        assert stranger.get(style).status_code == 200
        for closed in (turn.path, "/shares", f"{turn.path}/share", "/", f"{turn.path}/export.md"):
            assert stranger.get(closed).headers["location"].startswith("/sign-in")
        assert stranger.post(f"{turn.path}/shares").status_code == 401
        assert stranger.post(f"/shares/{shares(rheo)[0].id}/revocation").status_code == 401
        assert stranger.get(path, headers={"Host": "rebind.example"}).status_code == 403
        assert stranger.get(path).status_code == 200


def test_unknown_revoked_and_broken_addresses_look_the_same(shared: Running) -> None:
    rheo = shared
    turn = talk(rheo)
    revoked, kept = share(rheo, turn), share(rheo, turn)
    (entry,) = [row for row in shares(rheo) if row.token == revoked.rpartition("/")[2]]
    button = rheo.page("/shares").one(id_=f"share-{entry.id}").one("form")
    assert rheo.client.post(button["action"]).headers["location"] == "/shares"
    addresses = [
        revoked,
        kept[:-1],
        kept + "x",
        "/shared/",
        f"/shared/{turn.conversation_id}",
        f"{kept}/x",
        "/shared/%00",
    ]
    answers = [rheo.client.get(address) for address in addresses]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.text for answer in answers}) == 1
    assert (
        len(
            {
                tuple(sorted({name: a.headers[name] for name in a.headers.keys() - {"date", "x-request-id"}}.items()))
                for a in answers
            }
        )
        == 1
    )
    for answer in answers:
        check_static(answer)
        assert not parse(answer.text).all("a")
    assert rheo.client.get(kept).status_code == 200
    assert rheo.client.post(button["action"]).status_code == 404


def test_addresses_can_not_be_guessed(shared: Running) -> None:
    rheo = shared
    turn = talk(rheo)
    tokens = {share(rheo, turn).rpartition("/")[2] for _ in range(5)}
    assert len(tokens) == 5
    assert all(re.fullmatch(r"[\w-]{43}", token) for token in tokens)  # 256 bits


def test_every_link_is_listed_with_its_conversation_and_only_for_its_owner(server: Serve) -> None:
    rheo = server(SCRIPT, access=lambda request: request.headers.get("x-owner", "alice"))
    assert "Nothing is shared" in rheo.page("/shares").text
    turns = [talk(rheo, f"Question {number}") for number in range(2)]
    paths = [share(rheo, turn) for turn in turns]
    entries = rheo.page("/shares").test_ids("share-entry")
    assert [urlsplit(entry.test_id("share-link")["href"]).path for entry in entries] == paths[::-1]
    assert [f"Question {number}" in entry.text for number, entry in zip((1, 0), entries, strict=True)] == [True] * 2
    assert turns[1].path in [link["href"] for link in entries[0].all("a")]
    bob = {"X-Owner": "bob"}
    assert "Question" not in rheo.client.get("/shares", headers=bob).text
    assert rheo.client.get(f"{turns[0].path}/share", headers=bob).status_code == 404
    assert rheo.client.post(f"{turns[0].path}/shares", headers=bob).status_code == 404
    assert rheo.client.post(f"/shares/{shares(rheo)[0].id}/revocation", headers=bob).status_code == 404
    assert rheo.client.get(paths[0], headers=bob).status_code == 200


def test_deleting_a_conversation_revokes_its_links(shared: Running) -> None:
    rheo = shared
    turn = talk(rheo)
    path = share(rheo, turn)
    rheo.client.post(f"{turn.path}/deletion")
    assert rheo.client.get(path).status_code == 404
    assert urlsplit(path).path not in rheo.page("/shares").text


def test_sharing_works_within_the_page_too(shared: Running) -> None:
    rheo = shared
    turn = talk(rheo)
    page = rheo.page(turn.path)
    path = f"{turn.path}/share"
    assert path in [link["href"] for link in page.one(id_=f"menu-{turn.conversation_id}").all("a")]
    opener = page.test_id("open-share")
    assert (opener["hx-get"], opener["hx-include"]) == (path, "#leaf")
    asked = rheo.client.get(path, params={"leaf": turn.answer_id}, headers=HTMX)
    assert "2 messages" in asked.text
    assert not parse(asked.text).all("html")
    made = parse(rheo.client.post(f"{path}s", data={"leaf": turn.answer_id}, headers=HTMX).text)
    link = made.test_id("share-link")
    assert link.get("autofocus") is not None
    assert made.one("button", data_copy=link["id"])
    revoke = made.test_id("share-entry").one("form")
    left = parse(rheo.client.post(revoke["hx-post"], data={"leaf": turn.answer_id}, headers=HTMX).text)
    assert left.one(id_="dialog-title")
    assert not left.test_ids("share-entry")
    assert "2 messages" in left.text


def test_under_a_prefix_links_lead_there(server: Serve) -> None:
    rheo = server(SCRIPT, root_path="/chat")
    turn = talk(rheo)
    path = urlsplit(
        rheo.page(rheo.client.post(f"/chat{turn.path}/shares").headers["location"]).test_id("share-link")["href"]
    ).path
    assert path.startswith("/chat/shared/")
    assert rheo.page(path).one("h1").text == "Why?"


def test_what_an_older_renderer_made_is_made_anew(shared: Running) -> None:
    rheo = shared
    path = share(rheo, talk(rheo))
    before = rheo.client.get(path).text
    with rheo.parts.database.write() as session:
        session.execute(
            update(Share)
            .where(Share.token == path.rpartition("/")[2])
            .values(bodies=["<script>old</script>"] * 2, renderer=0)
        )
    assert rheo.client.get(path).text == before
    assert not [row for row in shares(rheo) if row.bodies and "old" in row.bodies[1] and row.token in path]
