"""Passed sockets: listening sockets that the process inherits from the program that started it.

systemd does so with units ``*.socket``, and names each by ``FileDescriptorName=``: the name of a
wire, or ``admin``. While the router restarts, clients then wait in the socket's queue and are not
refused.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cache

from headgate.errors import ConfigError
from headgate.server.config.hosts import is_loopback

FIRST_DESCRIPTOR = 3
"""The first passed descriptor, after standard input, output and error."""


class PassedSockets:
    """The sockets passed to a process, each until it is taken."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._descriptors: dict[str, int] = {}
        """Descriptors that are not taken yet, by name."""
        self._passed: list[int] = []
        # A process that we start inherits the variables; they are not meant for it.
        if environ.get("LISTEN_PID") != str(os.getpid()):
            return
        names = environ.get("LISTEN_FDNAMES", "").split(":")
        count = int(environ.get("LISTEN_FDS", "0"))
        for descriptor, name in enumerate(names[:count], FIRST_DESCRIPTOR):
            os.set_inheritable(descriptor, False)
            self._passed.append(descriptor)
            self._descriptors.setdefault(name, descriptor)

    @property
    def names(self) -> list[str]:
        """The names of sockets that are not taken."""
        return sorted(self._descriptors)

    def pass_on(self) -> None:
        """Pass the sockets on to the program that replaces this one: the process stays the same,
        and gets them only once."""
        for descriptor in self._passed:
            os.set_inheritable(descriptor, True)

    def take(self, section: str, host: str) -> socket.socket | None:
        """The socket for a section of the configuration, if one was passed.

        The demands of a section on clients depend on its host, so a socket that can be reached from
        further away is refused.
        """
        descriptor = self._descriptors.pop(section.rpartition(".")[2], None)
        if descriptor is None:
            return None
        try:
            passed = socket.socket(fileno=descriptor)
            listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError as error:
            raise ConfigError(f"what was passed for [{section}] is no socket") from error
        if not listens or passed.family not in (socket.AF_INET, socket.AF_INET6):
            passed.close()
            raise ConfigError(
                f"the socket that was passed for [{section}] does not listen on TCP:"
                " its unit needs ListenStream= with an address and a port"
            )
        where = passed.getsockname()[0]
        if is_loopback(host) and not is_loopback(where):
            passed.close()
            raise ConfigError(
                f"the socket that was passed for [{section}] listens on {where}, beyond loopback,"
                f" and host is {host}: set host to {where}, or ListenStream= to {host}"
            )
        passed.setblocking(False)
        return passed


@cache
def passed_sockets() -> PassedSockets:
    """The sockets passed to this process."""
    return PassedSockets()
