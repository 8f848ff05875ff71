"""Channels: budgets are kept, and everybody hears what was published."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.core.delivery.mailbox import Mailbox
from headgate.core.model.ids import Channel, SessionId
from headgate.testing.checkers.base import Checker
from headgate.testing.clients.client import PATTERNS
from headgate.testing.clients.listening import copies

if TYPE_CHECKING:
    from headgate.testing.network import Blob, Link
    from headgate.testing.simulated_router import Router, Taken
    from headgate.testing.world import World


COPIES_MAX = 1 + len(PATTERNS)
"""One by the channel itself, and one by each pattern."""


class Budgets(Checker):
    """Mailboxes are charged what they hold, and a publisher puts at most one message more into
    those over their limit."""

    name = "budget"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._bytes_max = 0
        self._publishers: set[SessionId] = set()

    def published(
        self, link: Link, channel: Channel, body: bytes, audience: Sequence[Mailbox]
    ) -> None:
        limits, budget = self.world.limits, link.router.broker.budget
        held = [mailbox.bytes for mailbox in audience]
        limit = limits.mailbox_bytes_hard
        if budget.bytes > limits.budget_bytes:
            limit = limits.mailbox_bytes_soft
        if any(size > limit for size in held):
            self.fail(f"#{link.id} published to mailboxes with {held} bytes")
        if link.id in self._publishers:
            self._publishers.clear()
        self._publishers.add(link.id)
        self._bytes_max = max(self._bytes_max, len(body))

    def flushed(self, router: Router) -> None:
        links = list(router.links.values())
        held = sum(link.session.mailbox.bytes for link in links)
        if router.broker.budget.bytes != held:
            self.fail(f"charged are {router.broker.budget.bytes} bytes, held are {held}")
        limits = self.world.limits
        publishers = sum(link.client.name.startswith("publisher") for link in links)
        more = publishers * self._bytes_max * COPIES_MAX
        listeners = [link for link in links if link.client.name.startswith("listener")]
        for link in listeners:
            size = link.session.mailbox.bytes
            if size > limits.mailbox_bytes_hard + more:
                self.fail(f"#{link.id} holds {size} bytes, {publishers} publish")
        easy = (len(links)) * limits.mailbox_bytes_soft
        if held > limits.budget_bytes + more * len(listeners) + easy:
            self.fail(f"{held} bytes are held, the budget is {limits.budget_bytes}")

    def turn(self, taken: Taken) -> None:
        self._publishers.clear()

    def ended(self, world: World) -> None:
        if world.router is not None:
            self.flushed(world.router)


class Hearing(Checker):
    """A listener of a channel hears everything that is published meanwhile, in order."""

    name = "channels"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._due: dict[int, deque[bytes]] = {}

    def published(
        self, link: Link, channel: Channel, body: bytes, audience: Sequence[Mailbox]
    ) -> None:
        channels = link.router.broker.channels
        for other in link.router.links.values():
            due = [body] * copies(channels.of(other.id), channel)
            self._due.setdefault(other.number, deque()).extend(due)

    def heard(self, link: Link, blob: Blob) -> None:
        due = self._due.get(link.number, deque())
        for frame in blob.splitlines(keepends=True):
            if not due or due[0] != frame:
                self.fail(f"{link.client.name} hears {frame!r}, due is {list(due)[:1]}")
            due.popleft()

    def calmed(self, world: World) -> None:
        for link in world.router.links.values() if world.router is not None else ():
            if not link.is_cut and self._due.get(link.number):
                self.fail(f"{link.client.name} never heard {list(self._due[link.number])}")
