"""A TCP proxy that breaks connections as a bad network does: at chosen bytes, or at once."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class CuttingProxy:
    """Passes bytes on to a server. Streams of answers can be broken.

    `cut_after(number)` gives, for the stream connection of that number (from 0), after how many bytes of
    the answer it is cut: 0 is before the first byte, None never.
    """

    def __init__(self, port: int, cut_after: Callable[[int], int | None]) -> None:
        self._upstream = port
        self._cut_after = cut_after
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._limits: dict[socket.socket, int | None] = {}
        self._lost: set[socket.socket] = set()
        self.streams = 0
        """Connections that asked for a stream."""
        self.cuts = 0
        self.last_event_ids: list[str] = []
        self.replies_to_lose = 0
        """So many answers to posts are cut off before their first byte, after the server has taken the post."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut_streams(self) -> int:
        """Cut every stream that is open now; how many there were."""
        with self._lock:
            streams = [client for client in self._limits if client in self._open]
            for client in streams:
                self._open.discard(client)
                _shut(client)
            self.cuts += len(streams)
        return len(streams)

    def close(self) -> None:
        self._listener.close()
        with self._lock:
            for connection in self._open:
                _shut(connection)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._upstream))
        except OSError:
            _shut(client)  # the server is down: the reader is told by the closed line
            return
        with self._lock:
            self._open |= {client, server}
        threading.Thread(target=_pump, args=(server, client, self._until_cut(client)), daemon=True).start()
        _pump(client, server, self._note_request(client))
        with self._lock:
            self._open -= {client, server}

    def _note_request(self, client: socket.socket) -> Callable[[bytes], bytes]:
        def note(data: bytes) -> bytes:
            if data.startswith(b"GET /generations/"):
                with self._lock:
                    self._limits[client] = self._cut_after(self.streams)
                    self.streams += 1
                for line in data.split(b"\r\n"):
                    if line.lower().startswith(b"last-event-id:"):
                        self.last_event_ids.append(line.partition(b":")[2].strip().decode())
            elif data.startswith(b"POST ") and self.replies_to_lose:
                with self._lock:
                    self.replies_to_lose -= 1
                    self._lost.add(client)
            # One request a connection, so that what is counted is what is meant.
            head, _, body = data.partition(b"\r\n\r\n")
            if head.startswith((b"GET ", b"POST ", b"PUT ")):
                head = head.replace(b"Connection: keep-alive", b"Connection: close")
                return head + b"\r\n\r\n" + body
            return data

        return note

    def _until_cut(self, client: socket.socket) -> Callable[[bytes], bytes]:
        passed = 0

        def cut(data: bytes) -> bytes:
            nonlocal passed
            limit = 0 if client in self._lost else self._limits.get(client)
            if limit is not None and passed + len(data) >= limit:
                with self._lock:
                    self.cuts += 1
                raise _Cut(data[: max(0, limit - passed)])
            passed += len(data)
            return data

        return cut


class _Cut(Exception):
    def __init__(self, rest: bytes) -> None:
        self.rest = rest


def _pump(source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(change(data))
    except _Cut as cut:
        target.sendall(cut.rest)
    except OSError:
        pass  # the other side is gone: what it would have had is lost, as on a real line
    finally:
        _shut(source)
        _shut(target)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # it was shut already
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
