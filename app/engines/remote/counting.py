"""Tokens as the server counts them: of a prompt, and back to text."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from app.engines.protocol import Prompt
from app.engines.remote.addresses import Address
from app.engines.remote.bodies import messages, text_of
from app.engines.remote.faults import Unreachable
from app.engines.remote.network import Network
from app.errors import NotFound, Unavailable, Uncounted

KEPT = 8
"""Prompts whose ids are remembered: the same is asked for before it is sent, when it is, and to tell what changed."""


class Counting:
    """Asks a server for the tokens of a model."""

    def __init__(self, network: Network, model: str) -> None:
        self._network = network
        self._model = model
        self._lock = Lock()
        self._known: OrderedDict[Prompt, list[int]] = OrderedDict()

    def encode(self, prompt: Prompt, address: Address) -> list[int]:
        """The ids of a prompt. Raises `Uncounted` where this server does not tell."""
        with self._lock:
            known = self._known.get(prompt)
        if known is None:
            known = self._asked(prompt, address)
            with self._lock:
                self._known[prompt] = known
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
        return list(known)

    def decode(self, token_ids: Sequence[int], address: Address) -> str:
        """The text of ids, control tokens written out. Raises `Uncounted` where this server does not tell."""
        body: dict[str, Any] = {"tokens": list(token_ids)}
        if address.kind.counting == "messages":
            body["model"] = self._model
        told = self._ask(address, "detokenize", body)
        return str(told.get("prompt", told.get("content", "")))

    def forget(self) -> None:
        """Another server may count otherwise."""
        with self._lock:
            self._known.clear()

    def _asked(self, prompt: Prompt, address: Address) -> list[int]:
        kind = address.kind
        body = {"prompt": text_of(prompt)} if prompt.plain else messages(prompt, kind)
        if kind.counting == "messages":
            told = self._ask(address, "tokenize", {"model": self._model, **body})
        else:
            text = body.get("prompt") or self._ask(address, "apply-template", body).get("prompt", "")
            told = self._ask(address, "tokenize", {"content": text, "add_special": True, "parse_special": True})
        return [int(token) for token in told["tokens"]]

    def _ask(self, address: Address, what: str, body: Any) -> Any:
        unknown = Uncounted(f"{address.name} doesn't tell how many tokens this is.")
        if address.kind.counting == "never":
            raise unknown
        try:
            return self._network.ask(address.name, "POST", f"{address.url}/{what}", body)
        except Unreachable:
            raise
        except NotFound as error:
            raise unknown from error
        except Unavailable as error:
            # A Rheo tells nothing of a model that it loads only when that is asked to answer.
            raise Uncounted(error.words) from error
