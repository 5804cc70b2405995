"""Ports for servers that tests start as processes."""

import socket

_KEPT: list[socket.socket] = []


def reserved_port() -> int:
    """A port of the loopback that a server may listen on, and again after it ended, and nobody else is given.

    It stays bound here, without a listener, as long as this process lives. Where it was only looked up, another
    server or a connection could be given it before the process that it was meant for, or between its end and its
    next start; and a server of another test that answers there looks like one's own.
    """
    kept = socket.socket()
    # With this on both sides the kernel lets one of them listen, but gives the port to nobody who asks for any.
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    _KEPT.append(kept)
    port: int = kept.getsockname()[1]
    return port
