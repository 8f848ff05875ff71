"""Questions of an operator about shared queues over the admin port: which there are, and to empty
or remove one."""

from __future__ import annotations

from headgate.core.commands import Purge
from headgate.core.effects import PurgeDone
from headgate.core.model.domain import Mode
from headgate.core.model.ids import QueueId
from headgate.core.model.queue_uri import parse_uri
from headgate.core.turn.store_requests import Listed, Listing, Load
from headgate.errors import Refused
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router

PAGE = 1000
"""Queues that are listed together at most."""


class QueueAdmin:
    """Shared queues at the admin port: its answers about them, and what it does with them."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def listing(self, domain: str, after: str = "") -> dict[str, object]:
        """Queues of a domain in the order of their names, after one of them, open or not."""
        self._check(domain)
        page = Listing(domain, QueueId(after.encode()), PAGE)
        loaded = await self._router.store.load(Load(listings={page}))
        return {"queues": [self._row(domain, listed) for listed in loaded.listings[page]]}

    async def purge(self, queue: str, *, removes: bool, forced: bool) -> dict[str, object]:
        """Empty a queue, or remove it; how many messages went."""
        uri = parse_uri(queue)
        self._check(uri.domain)
        session = InProcessSession(self._router, "operator")
        try:
            name = QueueId(uri.canonical.encode())
            done = await session.ask(Purge, name, uri.domain, removes, forced)
        finally:
            session.close()
        assert isinstance(done, PurgeDone), "a purge that did not fail was done"
        return {"queue": uri.canonical, "messages": done.messages, "removed": removes}

    def _check(self, domain: str) -> None:
        known = self._router.broker.shard.domains.get(domain)
        if known is None or known.mode is Mode.EXCLUSIVE:
            raise Refused(f"no domain {domain} has shared queues")

    def _row(self, domain: str, listed: Listed) -> dict[str, object]:
        here = self._router.broker.shard.shared.queues.get(listed.queue)
        return {
            "queue": listed.queue.decode(errors="backslashreplace"),
            "domain": domain,
            "messages": listed.messages,
            "bytes": listed.bytes,
            "consumers": 0 if here is None else len(here.readers()),
            "producers": 0 if here is None else len(here.producers),
        }
