"""ChatGPT's export: conversations whose `mapping` is a tree of nodes, many of which nobody ever saw.

What the reader was not meant to see is left out; reasoning and the use of tools go into the fold of the answer
they belong to, which is the run of nodes from one question to the next.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.transfer.drafts import (
    Draft,
    DraftMessage,
    dict_in,
    dicts_in,
    id_in,
    joined,
    moment,
    named,
    text_in,
)
from app.transfer.folds import fenced, folded

_HIDDEN_TYPES = {"user_editable_context", "model_editable_context", "app_pairing_content"}
_MARK = re.compile("\ue200([^\ue200\ue201\ue202]*)\ue202?([^\ue200\ue201]*)\ue201")
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_ADDRESS = re.compile(r"https?://[^\s()<>]+")
_BRACKET = re.compile(r"[\[\]\\]")
_ENTITY = re.compile(r'\[\s*"[^"]*"\s*,\s*"([^"]*)"')


def recognises(value: dict[str, Any]) -> bool:
    return isinstance(value.get("mapping"), dict)


def read(value: dict[str, Any]) -> Draft:
    nodes = {key: node for key, node in value["mapping"].items() if isinstance(node, dict)}
    tree = _Tree(nodes, text_in(value.get("default_model_slug")) or None)
    tree.walk()
    current = tree.shown_at.get(id_in(value.get("current_node")) or "")
    return Draft(
        source="chatgpt",
        id=id_in(value.get("conversation_id")) or id_in(value.get("id")) or "",
        title=text_in(value.get("title")),
        messages=[run.message() for run in tree.runs],
        created_at=moment(value.get("create_time")),
        updated_at=moment(value.get("update_time")),
        current=current.id if current else None,
    )


@dataclass(slots=True)
class _Said:
    """What one node says: as text, aside (in the fold), or as a kind of content that we don't know."""

    text: str = ""
    aside: str = ""
    unknown: str = ""


@dataclass(slots=True)
class _Run:
    """The nodes that make up one message."""

    id: str
    parent: "_Run | None"
    by_user: bool
    model: str | None
    nodes: list[dict[str, Any]] = field(default_factory=list)
    said: list[_Said] = field(default_factory=list)

    def message(self) -> DraftMessage:
        texts = [said.text for said in self.said if said.text]
        aside = [said.aside for said in self.said if said.aside]
        unknown = [
            f"[{said.unknown}: content of a kind that Rheo does not know]" for said in self.said if said.unknown
        ]
        # What we can't show is told in the answer only where the answer is nothing else.
        if texts:
            aside += unknown
        else:
            texts = unknown
        message = DraftMessage(
            id=self.id,
            parent=self.parent.id if self.parent else None,
            role="user" if self.by_user else "assistant",
            text=joined(*texts) if self.by_user else folded(aside, joined(*texts)),
            created_at=next((at for node in self.nodes if (at := moment(node.get("create_time")))), None),
        )
        if not self.by_user:
            slugs = [text_in(dict_in(node.get("metadata")).get("model_slug")) for node in self.nodes]
            message.model = next((slug for slug in reversed(slugs) if slug), self.model)
            self._end(message)
        return message

    def _end(self, message: DraftMessage) -> None:
        last = self.nodes[-1]
        status = text_in(last.get("status"))
        how = text_in(dict_in(dict_in(last.get("metadata")).get("finish_details")).get("type"))
        message.ending = "stop"
        if how == "max_tokens":
            message.ending = "length"
        elif how == "interrupted" or status == "finished_partial_completion":
            message.state, message.ending = "stopped", "cancelled"
        elif status == "in_progress":
            message.state, message.ending = "interrupted", "restart"


class _Tree:
    """The nodes of one conversation, walked from the roots down."""

    def __init__(self, nodes: dict[str, dict[str, Any]], model: str | None) -> None:
        self._nodes = nodes
        self._model = model
        self._children = _children(nodes)
        self.runs: list[_Run] = []
        self.shown_at: dict[str, _Run | None] = {}
        """The message in which a node is shown, or the nearest above it."""

    def walk(self) -> None:
        # A run grows only while the way is straight: where it forks, each branch is a message of its own.
        todo: list[tuple[str, _Run | None, bool]] = [(key, None, False) for key in self._children.get(None, [])[::-1]]
        while todo:
            key, above, straight = todo.pop()
            if key in self.shown_at:
                continue
            run = self._place(key, above, straight)
            self.shown_at[key] = run
            below = self._children.get(key, [])
            todo += [(child, run, len(below) == 1) for child in reversed(below)]

    def _place(self, key: str, above: _Run | None, straight: bool) -> _Run | None:
        message = dict_in(self._nodes[key].get("message"))
        role = text_in(dict_in(message.get("author")).get("role"))
        said = _said(message, role)
        if said is None:
            return above
        by_user = role == "user"
        run = above
        if run is None or by_user or run.by_user or not straight:
            run = _Run(key, above, by_user, self._model)
            self.runs.append(run)
        run.nodes.append(message)
        run.said.append(said)
        return run


def _children(nodes: dict[str, dict[str, Any]]) -> dict[str | None, list[str]]:
    """By parent, since newer exports have no lists of children; in the order of those lists where they are."""
    children: dict[str | None, list[str]] = {}
    for key, node in nodes.items():
        parent = id_in(node.get("parent"))
        children.setdefault(parent if parent in nodes else None, []).append(key)
    for parent, keys in children.items():
        listed = nodes[parent].get("children") if parent is not None else None
        if isinstance(listed, list) and len(keys) > 1:
            place = {key: number for number, key in enumerate(listed) if isinstance(key, str)}
            keys.sort(key=lambda key: place.get(key, len(place)))
    return children


def _said(message: dict[str, Any], role: str) -> _Said | None:
    """What is to be shown of a node; None for nothing."""
    content = dict_in(message.get("content"))
    metadata = dict_in(message.get("metadata"))
    kind = text_in(content.get("content_type"))
    hidden = metadata.get("is_visually_hidden_from_conversation") is True or message.get("weight") == 0
    if role not in ("user", "assistant", "tool") or hidden or kind in _HIDDEN_TYPES or not kind:
        return None
    said = _content(content, kind, role)
    if said.text:
        said.text = _unmarked(said.text, metadata)
        recipient = text_in(message.get("recipient")) or "all"
        if role == "assistant" and (recipient != "all" or message.get("channel") == "analysis"):
            said = _Said(aside=joined(f"To {recipient}" if recipient != "all" else "", said.text))
    if role == "user":
        attachments = [
            file.get("name")
            for file in dicts_in(metadata.get("attachments"))
            if not text_in(file.get("mime_type")).startswith("image")
        ]
        said.text = joined(said.text, named(attachments))
        said.aside = ""
    said.aside = _PRIVATE.sub("", said.aside)
    return said if said.text or said.aside or said.unknown else None


def _content(content: dict[str, Any], kind: str, role: str) -> _Said:
    if kind in ("text", "multimodal_text"):
        text = _parts(content)
        # Pictures are made by a tool, and are the answer all the same.
        return _Said(aside=text) if role == "tool" and "[image]" not in text else _Said(text=text)
    return _Said(aside=_ASIDE[kind](content)) if kind in _ASIDE else _Said(unknown=kind)


def _code(content: dict[str, Any]) -> str:
    text = text_in(content.get("text"))
    language = text_in(content.get("language"))
    return fenced(text, "" if language == "unknown" else language) if text else ""


def _thoughts(content: dict[str, Any]) -> str:
    return joined(*(_both(one.get("summary"), one.get("content")) for one in dicts_in(content.get("thoughts"))))


def _page(content: dict[str, Any]) -> str:
    return joined(_both(content.get("title"), content.get("url")), text_in(content.get("text")))


_ASIDE: dict[str, Callable[[dict[str, Any]], str]] = {
    "code": _code,
    "execution_output": _code,
    "thoughts": _thoughts,
    "reasoning_recap": lambda content: text_in(content.get("content")),
    "tether_quote": _page,
    "sonic_webpage": _page,
    "tether_browsing_display": lambda content: _both(content.get("summary"), content.get("result")),
    "system_error": lambda content: _both(content.get("name"), content.get("text")),
    "computer_output": lambda _: "[image]",
}
"""What the reader saw only as a part of the work, by the type of content."""


def _both(first: Any, second: Any) -> str:
    return "\n".join(text for text in (text_in(first), text_in(second)) if text)


def _parts(content: dict[str, Any]) -> str:
    """The parts of a text, the places of pictures kept."""
    parts = content.get("parts")
    if not isinstance(parts, list):
        return text_in(content.get("text"))
    text = ""
    for part in parts:
        piece = _part(part, parts)
        # A line end between two pieces, but where one of them brings its own blank.
        apart = text and piece and not text[-1].isspace() and not piece[0].isspace()
        text += ("\n" if apart else "") + piece
    return text.strip()


def _part(part: Any, parts: Sequence[Any]) -> str:
    if not isinstance(part, dict):
        return text_in(part)
    kind = text_in(part.get("content_type"))
    if kind == "image_asset_pointer":
        return "[image]"
    if "audio" in kind and "asset_pointer" in kind:
        written = any(
            isinstance(other, dict) and other.get("content_type") == "audio_transcription" for other in parts
        )
        return "" if written else "[sound]"
    return text_in(part.get("text")) or (f"[{kind}]" if kind and "text" not in part else "")


def _unmarked(text: str, metadata: dict[str, Any]) -> str:
    """The text with links for citations that are known, names for entities, and nothing for other marks."""
    if not _PRIVATE.search(text):
        return text
    known = {
        text_in(reference.get("matched_text")): _links(reference)
        for reference in dicts_in(metadata.get("content_references"))
    }

    def shown(mark: re.Match[str]) -> str:
        if mark[1] == "entity" and (name := _ENTITY.match(mark[2])):
            return name[1]
        return known.get(mark[0], "")

    return _PRIVATE.sub("", _MARK.sub(shown, text)).strip()


def _links(reference: dict[str, Any]) -> str:
    links = []
    for item in dicts_in(reference.get("items")):
        url = text_in(item.get("url"))
        if _ADDRESS.fullmatch(url):
            title = " ".join(_BRACKET.sub(r"\\\g<0>", text_in(item.get("title"))).split())
            links.append(f"[{title or url}]({url})")
    return f"({', '.join(links)})" if links else ""
