"""What the kernel holds between the two ends of a connection.

How much that is differs between kernels, and grows while a connection is used. A test that needs a
full socket says what its sockets hold, at both ends: what the server may send that nobody took, and
what a client receives before it reads.
"""

from __future__ import annotations

import socket

from headgate.server.net.listener import Listener
from headgate.server.wires.bmq import BmqServer
from headgate.server.wires.resp import RespServer

NARROW_BYTES = 8192
"""With the kernel's own accounting some tens of thousands of bytes. With much less, what is sent in
pieces that do not fit waits for timers of the kernel."""


def narrow_receiver(client: socket.socket) -> None:
    """Have a client's socket hold little of what it does not read; before it connects, as that is
    when the two ends agree on a window."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)


def narrow_sender(sender: socket.socket) -> None:
    """Have a socket hold little of what the other end does not take."""
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NARROW_BYTES)


def narrow_door(server: BmqServer | RespServer) -> None:
    """Have what a server accepts from now on hold little: sockets inherit it from their
    listener."""
    listener = server._endpoint._listener
    assert isinstance(listener, Listener), "it accepts by itself"
    narrow_sender(listener._socket)
