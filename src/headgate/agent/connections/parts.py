"""The parts that all code for connections shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.agent.clock import AgentClock
from headgate.agent.model import RouterId
from headgate.agent.operations import Operations
from headgate.agent.ports import RouterPort
from headgate.agent.records import Records, routers
from headgate.agent.sending import Sending
from headgate.crypto.kem import Kem
from headgate.errors import ConfigError
from headgate.wire.smp.codec.router_address import RouterAddress


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """Records, routers, time and randomness, as `Connections` was given them."""

    records: Records
    routers: RouterPort
    sending: Sending
    operations: Operations
    clock: AgentClock
    draw: Callable[[int], bytes]
    kem: Kem | None

    def kem_if(self, wanted: bool) -> Kem | None:
        """The KEM if it is wanted. Raises `ConfigError` if there is none."""
        if wanted and self.kem is None:
            raise ConfigError("no KEM: install headgate[pq], or connect without it")
        return self.kem if wanted else None

    async def keep_router(self, address: RouterAddress) -> RouterId:
        """The number of a router, which can be used from now on."""
        router = await self.records.write(routers.keep, address)
        self.routers.add_router(router, address)
        return router


def find_kem() -> Kem | None:
    """The KEM of the extra `pq`, if it is installed."""
    try:
        from headgate.crypto.sntrup761 import Sntrup761
    except ImportError:
        return None
    return Sntrup761()
