"""The addresses that serve one model: the least busy is asked first, and one that fails rests until it is well."""

import logging
import threading
import time
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from app.engines.remote.kinds import PLAIN, Kind, kind_of
from app.engines.remote.network import Network
from app.errors import AppError, NotFound, Unavailable

log = logging.getLogger(__name__)

FIRST_REST_S = 0.25
LONGEST_REST_S = 15.0
FULL_S = 2.0
"""For how long one that had no room is asked only if there is no other."""


@dataclass(eq=False, slots=True)
class Address:
    """One server. `well` says whether it served the model when it was asked last."""

    url: str
    """Without the /v1 that names are given below."""
    kind: Kind = PLAIN
    entry: dict[str, Any] = field(default_factory=dict)
    """What it tells of the model."""
    window: int | None = None
    """How many tokens its model takes; None where it does not tell."""
    well: bool = False
    active: int = 0
    full_until: float = 0.0
    ask_at: float = 0.0
    rest_s: float = 0.0

    @property
    def name(self) -> str:
        """How people are told of it: without what may be secret in an address."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)

    @property
    def known(self) -> bool:
        """Whether all is known of the model: of one that is loaded when it is asked some things show only then."""
        return self.well and self.entry.get("state") != "unloaded"

    @property
    def supports(self) -> frozenset[str]:
        """The fields of `Sampling` that it honours: what it tells itself, or what its kind does."""
        told = self.entry.get("supported_parameters")
        return self.kind.supports & frozenset(told) if isinstance(told, list) else self.kind.supports


def address_of(url: str) -> Address:
    """The address that a setting names, with or without its /v1."""
    return Address(url.rstrip("/").removesuffix("/v1").rstrip("/"))


class Addresses:
    """Which servers there are for a model, how busy they are, and which of them rest."""

    def __init__(
        self, addresses: Collection[Address], model: str, network: Network, changed: Callable[[], None]
    ) -> None:
        """`changed` is called when an address has been found well, or not."""
        self._all = list(addresses)
        self._tell = changed
        self.model = model
        self.network = network
        self._changed = threading.Condition()
        self._closed = False
        self._watch = threading.Thread(target=self._look_after, name="engine-remote-watch", daemon=True)
        self._watch.start()

    @property
    def well(self) -> list[Address]:
        """Those that serve the model now."""
        return [address for address in self._all if address.well]

    @property
    def active(self) -> int:
        """Answers that are made now, at all of them."""
        return sum(address.active for address in self._all)

    @property
    def names(self) -> str:
        """All of them, in words."""
        return " and ".join(address.name for address in self._all)

    def __len__(self) -> int:
        return len(self._all)

    def take(self, subject: str, able: Callable[[Address], bool], wait_s: float, cancelled: Event) -> Address | None:
        """The best of the able addresses for one answer, counted as busy until it is left.

        Answers about the same subject go to the same server where it is as good as others: it has read their
        beginning. Where there is none, one that rests is waited for; None where there is none even then.
        """
        deadline = time.monotonic() + wait_s
        with self._changed:
            while (address := self._best(subject, able)) is None:
                ill = any(not one.well and able(one) for one in self._all)
                if not ill or self._closed or cancelled.is_set() or time.monotonic() >= deadline:
                    return None
                # The event can't be waited for together with the condition: look at it now and then.
                self._changed.wait(0.05)
            address.active += 1
            return address

    def leave(self, address: Address) -> None:
        """It is no longer busy with that answer."""
        with self._changed:
            address.active -= 1

    def failed(self, address: Address, fault: Exception) -> None:
        """Let an address rest; it is asked now and then whether it is well again."""
        with self._changed:
            if address.well:
                log.warning("%s rests: %s", address.name, fault)
            address.well = False
            # Only the connection may have broken: the first look is at once.
            address.rest_s, address.ask_at = 0.0, 0.0
            self._changed.notify_all()
        self._tell()

    def full(self, address: Address) -> None:
        """Ask others first for a while."""
        address.full_until = time.monotonic() + FULL_S

    def close(self) -> None:
        """Stop to look after them; may be called twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._watch.join()

    def _best(self, subject: str, able: Callable[[Address], bool]) -> Address | None:
        now = time.monotonic()

        def worth(one: Address) -> tuple[bool, int, int]:
            return one.full_until > now, one.active, zlib.crc32(f"{one.url} {subject}".encode("utf-8", "replace"))

        return min((one for one in self._all if one.well and able(one)), key=worth, default=None)

    def _look_after(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                asked = [address for address in self._all if not address.known]
                due = min((address.ask_at for address in asked), default=None)
                pause = None if due is None else due - time.monotonic()
                if pause is None or pause > 0:
                    self._changed.wait(pause)
                    continue
            for address in asked:
                if address.ask_at <= time.monotonic():
                    self._ask(address)

    def _ask(self, address: Address) -> None:
        was = address.well, address.known
        with suppress(AppError):
            look_at(self.network, address, self.model)
        address.rest_s = min(max(FIRST_REST_S, 2 * address.rest_s), LONGEST_REST_S)
        address.ask_at = time.monotonic() + address.rest_s
        if (address.well, address.known) != was:
            log.info("%s serves %s", address.name, self.model)
            self._tell()
            with self._changed:
                self._changed.notify_all()


def models_at(network: Network, address: Address) -> list[dict[str, Any]]:
    """What a server says of each of its models."""
    body = network.ask(address.name, "GET", f"{address.url}/v1/models")
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list):
        raise Unavailable(f"{address.name} answers, but not as a model server does.")
    return [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def look_at(network: Network, address: Address, model: str) -> None:
    """Ask a server what it is and what it tells of a model. Raises `NotFound` where it has none of that name."""
    entries = {entry["id"]: entry for entry in models_at(network, address)}
    if model not in entries:
        raise NotFound(f"{address.name} has no model {model}; it has {', '.join(entries) or 'none'}.")
    if entries[model].get("state") in ("loading", "failed"):
        raise Unavailable(f"{address.name} has no {model} to offer yet: {entries[model]['state']}.")
    address.entry = entries[model]
    address.kind = kind_of(address.entry)
    address.window = _window(network, address)
    address.well = True


def _window(network: Network, address: Address) -> int | None:
    told = address.entry.get("max_model_len") or address.entry.get("context_length")
    if not told and address.kind.counting == "template":
        # What the list tells is what the model was made for, not what this server has room for.
        props = network.ask(address.name, "GET", f"{address.url}/props")
        told = props.get("default_generation_settings", {}).get("n_ctx")
    return told if isinstance(told, int) and told > 0 else None
