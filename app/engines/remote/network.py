"""The one thread through which an engine talks with other servers: short questions, and streams."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import Any

import httpx2

from app.engines.remote.faults import Silent, Unreachable, told
from app.errors import Unavailable

MOST_ERROR_BYTES = 64_000
_OWN_MACHINE = ("all://127.0.0.1", "all://localhost", "all://[::1]")


class Network:
    """Connections to any number of servers. Safe to use from many threads."""

    def __init__(self, key: str | None, connect_s: float, stall_s: float, *, secure: bool) -> None:
        """`secure` says whether any server is asked by https: to read the certificates takes a while."""
        self._secure = secure
        self._connect_s = connect_s
        self._stall_s = stall_s
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._closed = False
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="engine-remote", daemon=True)
        self._thread.start()
        self._started.wait()

    def ask(self, name: str, method: str, url: str, body: Any = None) -> Any:
        """The JSON of a short answer. Raises `Unreachable`, or what the server says."""
        future = asyncio.run_coroutine_threadsafe(self._asked(name, method, url, body), self._running())
        try:
            return future.result()
        except CancelledError as error:
            raise Unavailable("The connection was closed.") from error

    def stream(self, name: str, url: str, body: Any) -> "Stream":
        """An answer as it comes."""
        stream = Stream()
        stream.begin(self._running(), self._read(name, url, body, stream))
        return stream

    def close(self) -> None:
        """End all that is under way; may be called twice."""
        if not self._closed:
            self._closed = True
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise Unavailable("The connection was closed.")
        return self._loop

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        # How many are at work at one time is decided above.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        # A proxy for the world outside has no way to this machine.
        mounts = dict.fromkeys(_OWN_MACHINE)
        async with httpx2.AsyncClient(
            headers=self._headers, verify=self._secure, limits=limits, mounts=mounts
        ) as self._client:
            self._started.set()
            await self._ended.wait()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _asked(self, name: str, method: str, url: str, body: Any) -> Any:
        try:
            response = await self._client.request(method, url, json=body, timeout=self._connect_s)
            if response.status_code != 200:
                raise told(name, response.status_code, response.content)
            return response.json()
        except httpx2.TransportError as error:
            raise unreachable(name, error) from error
        except ValueError as error:
            raise Unavailable(f"{name} answers, but not as a model server does.") from error

    async def _read(self, name: str, url: str, body: Any, stream: "Stream") -> None:
        timeout = httpx2.Timeout(self._stall_s, connect=self._connect_s)
        try:
            async with self._client.stream("POST", url, json=body, timeout=timeout) as response:
                if response.status_code != 200:
                    raise told(name, response.status_code, await _start_of(response))
                async for chunk in response.aiter_bytes():
                    stream.put(chunk)
            stream.put(None)
        except httpx2.ConnectTimeout as error:
            stream.put(unreachable(name, error))
        except httpx2.TimeoutException:
            stream.put(Silent(f"{name} said nothing for {self._stall_s:g} seconds."))
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            stream.put(unreachable(name, error))
        except asyncio.CancelledError:
            stream.put(Unavailable("The connection was closed."))
            raise
        # Whatever it is, it belongs to whoever reads the answer.
        except Exception as error:
            stream.put(error)


class Stream:
    """What a server sends for one answer, put in by the network's thread and taken out by the answer's."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[bytes | Exception | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: Any = None

    def begin(self, loop: asyncio.AbstractEventLoop, reading: Coroutine[Any, Any, None]) -> None:
        """Start to read."""
        self._task = asyncio.run_coroutine_threadsafe(reading, loop)

    def put(self, news: bytes | Exception | None) -> None:
        """A chunk, a fault, or the end."""
        self._queue.put(news)

    def take(self, timeout: float) -> bytes | None:
        """The next chunk, empty where none came in time; None at the end. Raises what went wrong."""
        try:
            news = self._queue.get(timeout=timeout)
        except Empty:
            return b""
        if isinstance(news, Exception):
            raise news
        return news

    def close(self) -> None:
        """Close the connection, wherever the answer is: the server then stops to make it."""
        self._task.cancel()


def unreachable(name: str, error: Exception) -> Unreachable:
    """A fault of the connection in words."""
    if isinstance(error, httpx2.ConnectTimeout | httpx2.ReadTimeout | httpx2.WriteTimeout):
        return Unreachable(f"{name} does not answer.")
    if isinstance(error, httpx2.ConnectError):
        return Unreachable(f"{name} can't be reached: {str(error) or 'no connection'}.")
    return Unreachable(f"The connection to {name} broke.")


async def _start_of(response: httpx2.Response) -> bytes:
    content = b""
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > MOST_ERROR_BYTES:
            break
    return content
