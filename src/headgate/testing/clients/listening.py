"""Listeners and publishers of channels."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from headgate.core.channels.audience import BARE, Kind
from headgate.core.channels.session_channels import SessionChannels
from headgate.core.model.ids import (
    Channel,
)
from headgate.testing.clients.client import CHANNELS, PATTERNS, Client
from headgate.testing.network import Blob, Link

if TYPE_CHECKING:
    from headgate.testing.world import World


class Listener(Client):
    """A client that hears channels, some of them slowly."""

    def act(self) -> None:
        random, link = self.world.random, self.link
        assert link is not None, "only who is connected acts"
        kind = random.random()
        family = random.choice((Kind.EXACT, Kind.PATTERN))
        known: tuple[bytes, ...] = CHANNELS if family is Kind.EXACT else PATTERNS
        names = random.sample(known, random.choice((1, 2)))
        if kind < 0.5:
            self.world.trace.add(self.name, "listens to", *names)
            link.router.broker.channels.subscribe(link.id, family, names, BARE)
        elif kind < 0.6:
            self.world.trace.add(self.name, "no longer listens to", *names)
            link.router.broker.channels.unsubscribe(link.id, family, names)
        elif kind < 0.8:
            link.bytes_per_second = random.choice((1e9, 100.0, 20.0))

    def hear_unasked(self, effect: object) -> None:
        if isinstance(effect, Blob) and self.link is not None:
            self.world.each("heard", self.link, effect)


def copies(interests: SessionChannels, channel: bytes) -> int:
    """How often a session hears a message of a channel, worked out the plain way."""
    name = channel.decode()
    patterns = sum(fnmatchcase(name, pattern.decode()) for pattern in interests.pattern)
    return (channel in interests.exact) + patterns


class Publisher(Client):
    """A client that publishes to channels, and waits when it has to."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.waits: tuple[Channel, bytes] | None = None
        self.count = 0

    def forget(self) -> None:
        self.waits = None

    def act(self) -> None:
        random, link = self.world.random, self.link
        assert link is not None, "only who is connected acts"
        if self.waits is None:
            self.count += 1
            channel = random.choice(CHANNELS)
            head = b"%s %s %d " % (channel, self.name.encode(), self.count)
            frame = head + b"." * random.choice((5, 40, 150)) + b"\n"
            self._publish(link, channel, frame)

    def may_go_on(self, link: Link) -> None:
        if link is self.link and self.waits is not None:
            channel, frame = self.waits
            self.waits = None
            self._publish(link, channel, frame)

    def _publish(self, link: Link, channel: Channel, frame: bytes) -> None:
        if not link.router.publish(link, channel, frame):
            self.waits = (channel, frame)


# Who comes to a world.
