"""A router with the BMQ wire in the loop of a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.core.model.domain import Domain, Mode
from headgate.core.model.limits import Limits
from headgate.core.model.value import EMPTY
from headgate.server.config.kinds import Secret
from headgate.server.config.sections import ListenBmq, Tls
from headgate.server.router import Router
from headgate.server.wires.bmq import BmqServer
from headgate.store import open_store

DOMAINS = (
    Domain("orders", Mode.PRIORITY),
    Domain("small", Mode.PRIORITY, max_messages=2),
    Domain("fan", Mode.FANOUT, apps=("audit", "shipping")),
    Domain("news", Mode.BROADCAST),
    Domain("guarded", Mode.PRIORITY, readers=("billing",), writers=("shop", "billing")),
)


class Rig:
    """The store, and the port, outlive a `stop`."""

    router: Router
    server: BmqServer

    def __init__(
        self, folder: Path, *, tls: Tls | None = None, clients: Mapping[str, Secret] = EMPTY
    ) -> None:
        self._folder = folder
        self._tls = tls
        self._clients = clients
        self.port = 0

    @property
    def address(self) -> str:
        return f"tcp{'' if self._tls is None else 's'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.router = Router(
            store=open_store("sqlite:headgate.db", self._folder),
            domains={domain.name: domain for domain in DOMAINS},
            limits=Limits(),
        )
        await self.router.start()
        listen = ListenBmq(host="127.0.0.1", port=self.port, tls=self._tls, clients=self._clients)
        self.server = BmqServer(self.router, listen, self._folder)
        _, self.port = self.server.address

    async def stop(self) -> None:
        self.server.close()
        await self.router.stop()
