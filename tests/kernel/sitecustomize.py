"""Another kernel, as far as buffers of sockets go: ``TEST_SOCKET_BYTES=65536`` gives that many
bytes to every socket of the tests, and of the processes that they start, unless the socket is told
otherwise.

Python imports a module of this name by itself when it starts, if it finds one; `tests/conftest.py`
has it found.
"""

from __future__ import annotations

import os
import socket
from typing import Any

VARIABLE = "TEST_SOCKET_BYTES"


def give_buffers(size: int) -> None:
    """Every socket that is made here has buffers of this size until it is told otherwise. Those
    that are accepted have what their listener has."""
    make, make_pair = socket.socket.__init__, socket.socketpair

    def give(connected: socket.socket) -> None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def init(self: socket.socket, *args: Any, **options: Any) -> None:  # noqa: ANN401
        make(self, *args, **options)
        is_new = options.get("fileno") is None and len(args) < 4
        if is_new and self.type == socket.SOCK_STREAM:
            give(self)

    def pair(*args: Any, **options: Any) -> tuple[socket.socket, socket.socket]:  # noqa: ANN401
        made = make_pair(*args, **options)
        for each in made:
            give(each)
        return made

    socket.socket.__init__ = init  # type: ignore[method-assign]
    socket.socketpair = pair


if VARIABLE in os.environ:
    give_buffers(int(os.environ[VARIABLE]))
