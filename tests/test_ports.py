"""A test's server finds its port free, however many others start at the same time."""

import socket
import struct
import sys
from contextlib import closing

import pytest
from ports import reserved_port

IP_LOCAL_PORT_RANGE = 51
"""Linux 6.3: from which ports a socket that asks for any is given one (ip(7)); Python has no name for it."""


def asking_for_any_of(port: int) -> socket.socket:
    asking = socket.socket()
    try:
        asking.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", port << 16 | port))
    except OSError:
        asking.close()
        pytest.skip("this kernel can't be asked for one of few ports")
    return asking


@pytest.mark.skipif(sys.platform != "linux", reason="what the kernel of Linux does")
def test_a_reserved_port_is_given_to_no_server_and_no_connection_that_asks_for_any() -> None:
    port = reserved_port()
    with closing(asking_for_any_of(port)) as asking, pytest.raises(OSError, match="in use"):
        asking.bind(("127.0.0.1", 0))
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as other,
        closing(asking_for_any_of(port)) as asking,
        pytest.raises(OSError, match="assign"),
    ):
        asking.connect(other.getsockname())


def test_a_server_listens_on_a_reserved_port_again_after_it_ended() -> None:
    port = reserved_port()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with (
            closing(socket.create_server(("127.0.0.1", port))) as server,
            closing(socket.create_connection(("127.0.0.1", port))),
        ):
            server.accept()[0].close()
