"""Bringing in over HTTP, as the page does without scripts, and what is there afterwards."""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from casefiles import FOLDER
from dom import Element
from serving import Running
from waiting import until

from app.conversations.models import Conversation, Message
from app.conversations.queries import transcript

File = tuple[str, bytes]


def as_file(value: Any, name: str = "conversations.json") -> File:
    return name, json.dumps(value).encode()


def case_upload(name: str) -> File:
    return Path(name).name, (FOLDER / name).read_bytes()


def zip_of(entries: dict[str, bytes | str], *, name: str = "export.zip") -> File:
    """A zip of these entries."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    return name, made.getvalue()


@dataclass
class Brought:
    """What came of an import: its page, and its report as the page links it."""

    path: str
    page: Element
    report: dict[str, Any]

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.report["imported"], self.report["updated"], self.report["skipped"]

    @property
    def reasons(self) -> list[str]:
        return [one["reason"] for one in self.report["conversations"] if one["result"] == "skipped"]


def upload(rheo: Running, *files: File, action: str = "start") -> httpx.Response:
    sent = [("file", (name, content, "application/octet-stream")) for name, content in files]
    return rheo.client.post("/imports", files=sent, data={"action": action})


def bring_in(rheo: Running, *files: File, action: str = "start", within_s: float = 30) -> Brought:
    """Upload, wait for the end, and follow to the report."""
    response = upload(rheo, *files, action=action)
    assert response.status_code == 303, response.text
    return ended(rheo, response.headers["location"], within_s)


def ended(rheo: Running, path: str, within_s: float = 30) -> Brought:
    page = until(lambda: (page := rheo.page(path)).test_ids("import-report") and page, within_s)
    (link,) = [link for link in page.test_id("import-report").all("a") if link["href"].endswith(".json")]
    return Brought(path, page, rheo.client.get(link["href"]).json())


def shown(rheo: Running, conversation: Conversation) -> list[Message]:
    """The messages that the page shows."""
    with rheo.parts.database.read() as session:
        return transcript(session, conversation)


def by_title(rheo: Running, title: str) -> Conversation:
    (found,) = [row for row in rheo.conversations() if row.title == title]
    return found


def messages_of(rheo: Running, conversation: Conversation) -> list[Message]:
    return [message for message in rheo.messages() if message.conversation_id == conversation.id]


def everything(rheo: Running) -> str:
    """All text that is stored of conversations."""
    return "\n".join([row.title for row in rheo.conversations()] + [row.text for row in rheo.messages()])


def chat(number: int, *texts: str, **fields: Any) -> dict[str, Any]:
    """One conversation as ChatGPT exports it: texts in turn."""
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": ["0"]}}
    for place, text in enumerate(texts):
        nodes[str(place)] = node(str(place), str(place - 1) if place else "root", text, at=1756000000 + place)
    return {
        "id": f"chat-{number}",
        "title": f"Chat {number}",
        "create_time": 1756000000.5 + number,
        "update_time": 1756000100.5 + number,
        "mapping": nodes,
        "current_node": str(len(texts) - 1),
        "default_model_slug": "demo-large",
        **fields,
    }


def node(key: str, parent: str, text: str, *, at: float | None = None, role: str = "") -> dict[str, Any]:
    role = role or ("user" if int(key) % 2 == 0 else "assistant")
    return {
        "id": key,
        "parent": parent,
        "message": {
            "id": key,
            "author": {"role": role},
            "create_time": at,
            "content": {"content_type": "text", "parts": [text]},
            "status": "finished_successfully",
            "weight": 1.0,
            "recipient": "all",
        },
    }


Make = Callable[..., Running]
