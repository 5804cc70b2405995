"""A model that another server runs, as an engine."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Event, Lock

from app.engines.catalog import CONCURRENCY
from app.engines.choice import Choice, choose
from app.engines.protocol import Counters, Identity, Output, Piece, Progress, Prompt, Report, Sampling
from app.engines.remote.addresses import Address, Addresses, address_of, look_at, models_at
from app.engines.remote.answer import Answer
from app.engines.remote.counting import Counting
from app.engines.remote.faults import ELSEWHERE
from app.engines.remote.network import Network
from app.errors import AppError, Invalid, TooLong, Unavailable, Uncounted
from app.settings import Settings

RETRY_S = 0.5
"""How long to wait before servers of which none answers are asked again."""


def load(settings: Settings, name: str | None, report: Report) -> "RemoteEngine":
    """The engine of a model (None: the first that is listed), once a server has it. Raises what a server says."""
    network = network_of(settings)
    addresses = [address_of(url) for url in settings.remote_url]
    try:
        while True:
            found, faults = _look(network, addresses, name)
            if found is not None:
                return RemoteEngine(settings, found, addresses, network)
            # Where one answers, the way is open, and others want to be loaded too; where none does, none can be.
            if refusals := [fault for fault in faults if not isinstance(fault, ELSEWHERE)]:
                raise refusals[0]
            report(Progress(f"waiting for a server. {faults[0].words}", 0.0))
            Event().wait(RETRY_S)
    except BaseException:
        network.close()
        raise


def network_of(settings: Settings) -> Network:
    """The way to the servers of the settings."""
    key = settings.remote_key.get_secret_value() if settings.remote_key is not None else None
    secure = any(url.startswith("https:") for url in settings.remote_url)
    return Network(key, settings.remote_connect_s, settings.stall_s, secure=secure)


def _look(network: Network, addresses: Sequence[Address], name: str | None) -> tuple[str | None, list[AppError]]:
    """Ask all servers; the name of the model where one has it, and what went wrong at the others."""
    faults: list[AppError] = []
    found = None
    for address in addresses:
        try:
            wanted = name or found or _first(network, address)
            look_at(network, address, wanted)
            found = wanted
        except AppError as fault:
            faults.append(fault)
    return found, faults


def _first(network: Network, address: Address) -> str:
    for entry in models_at(network, address):
        return str(entry["id"])
    raise Unavailable(f"{address.name} has no model.")


class RemoteEngine:
    """One model at one or several addresses. Implements `protocol.Engine`."""

    concurrency = CONCURRENCY["remote"]
    # Servers tell neither weights nor template; which address answered is no matter of the model.
    identity = Identity("remote", "unknown", "unknown", "unknown", "unknown", {})

    def __init__(self, settings: Settings, name: str, addresses: Sequence[Address], network: Network) -> None:
        """Take over addresses, at least one of which was found to serve the model."""
        self.model = name
        self._settings = settings
        self._network = network
        self._counting = Counting(network, name)
        self._lock = Lock()
        self._steps = self._tokens = self._active = self._rebuilt = 0
        self._addresses = Addresses(addresses, name, network, self._learn)
        self.supports: frozenset[str] = frozenset()
        self.context_window = settings.remote_window
        self.detail = self.own_system = ""
        self._learn()

    @property
    def counters(self) -> Counters:
        return Counters(self._steps, self._tokens, self._active, self._rebuilt)

    def encode(self, prompt: Prompt) -> list[int]:
        """The exact ids, as a server tells them. Raises `Uncounted` where none does."""
        if prompt.token_ids is not None:
            return list(prompt.token_ids)  # as a server told them for these parts, which are what it is given
        return self._counting.encode(prompt, self._counter())

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids as the model reads it; empty where no server tells."""
        with suppress(Uncounted):
            return self._counting.decode(token_ids, self._counter())
        return ""

    def stream(self, prompt: Prompt, sampling: Sampling, cancelled: Event) -> Iterator[Output]:
        """Answer a prompt, as `protocol.Engine` says. What can't be done is refused before this returns."""
        choice = choose(sampling, self._settings, self.supports)
        if not prompt.parts:
            raise Invalid("There is nothing to answer.")
        self._fitting(prompt, choice)
        wait_s = self._settings.remote_connect_s
        return self._run(Answer(self._addresses, prompt, choice, self._fitting, wait_s), cancelled)

    def close(self) -> None:
        """Close all connections. Running streams end with an error."""
        self._addresses.close()
        self._network.close()

    def _fitting(self, prompt: Prompt, choice: Choice) -> Choice:
        """The choice, for an answer that there is room for. Raises `TooLong` where there is none."""
        with suppress(Unavailable):
            count = len(self.encode(prompt))
            if count >= self.context_window:
                raise TooLong(count, self.context_window)
            return choice.within(self.context_window - count)
        # What is not known the server says itself.
        return choice

    def _run(self, answer: Answer, cancelled: Event) -> Iterator[Output]:
        with self._lock:
            self._active += 1
        try:
            for piece in answer.pieces(cancelled):
                self._count(piece)
                yield piece
        finally:
            with self._lock:
                self._active -= 1
                self._rebuilt += answer.breaks
        yield answer.ending()

    def _count(self, piece: Piece) -> None:
        with self._lock:
            self._steps += 1
            self._tokens += len(piece.token_ids)

    def _counter(self) -> Address:
        """The server to ask for counts: of several any, as they serve the same model."""
        well = self._addresses.well
        counting = [address for address in well if address.kind.counting != "never"]
        if not well:
            raise Unavailable(f"{self._addresses.names} can't be reached.")
        return (counting or well)[0]

    def _learn(self) -> None:
        """What the servers are that are there now: an answer may come from any of them."""
        well = self._addresses.well
        if well:
            self.supports = frozenset.intersection(*(address.supports for address in well))
            self.own_system = str(well[0].entry.get("own_system", ""))
            self.context_window = min((a.window for a in well if a.window), default=self._settings.remote_window)
        places = ", ".join(f"{address.kind.name} at {address.name}" for address in well)
        resting = len(self._addresses) - len(well)
        self.detail = "; ".join(part for part in (places, resting and f"{resting} can't be reached") if part)
        self._counting.forget()
