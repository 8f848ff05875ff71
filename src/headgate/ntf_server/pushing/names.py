"""The addresses of push services, looked up once for each connection.

A connection is opened to addresses, never to a name: they are the ones that were judged.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headgate.notify.endpoints import IPAddress, addresses_to_ask

LOOKUPS_MAX: Final = 32
"""Names that are looked up at once. A thread cannot be interrupted while it does, so those of the
loop are not used: strangers have slow servers of names."""


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host, by the system. Raises `OSError` if there are none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("no name of a host") from error
    return [str(address[0]) for *_, address in found]


class Names:
    """The lookup of the addresses that a host may be asked at; owns the threads that look.
    `may_be_private` is asked about a host whose addresses are not all public."""

    def __init__(
        self,
        may_be_private: Callable[[str], bool],
        look_up: Callable[[str, int], list[str]] = look_up,
    ) -> None:
        self._may_be_private = may_be_private
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(LOOKUPS_MAX, "names of push services")

    async def addresses(self, host: str, port: int) -> list[IPAddress]:
        """Raises `Prohibited`, or `OSError` for a name that is not found."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, self._look_up, host, port)
        return addresses_to_ask(found, allow_private=self._may_be_private(host))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
