"""Passed sockets: those that whoever started the process already listens on, and hands over.

systemd does so with units ``*.socket``, and says which is which with ``FileDescriptorName=``: the
name of a wire, or ``admin``. Clients that come while the router is restarted then wait for it in
the socket's queue instead of being refused.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from functools import cache

from headgate.errors import ConfigError
from headgate.server.config.hosts import is_loopback

FIRST_DESCRIPTOR = 3
"""Where passed descriptors begin, after those of standard input, output and error."""


class PassedSockets:
    """The sockets that a process was handed, each until somebody takes it."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._descriptors: dict[str, int] = {}
        """Those that nobody has taken, by name."""
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
        """Of those that nobody has taken."""
        return sorted(self._descriptors)

    def pass_on(self) -> None:
        """Let the program that this process becomes have them too: it is the same process, and
        whoever passed them passes them once."""
        for descriptor in self._passed:
            os.set_inheritable(descriptor, True)

    def take(self, section: str, host: str) -> socket.socket | None:
        """The socket for a section of the configuration, if one was passed.

        What a section demands of clients depends on its host, so a socket that is reached from
        further away than the host says is refused.
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
    """Those of this process."""
    return PassedSockets()
