"""Sessions that take the short way from a read to a pass, or go by steps: the same comes of both.

Both worlds have the same clients, limits and reads. In one each session is given its reads as
connections do it; in the other the steps in Python are called, which the short way falls back on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import MethodType
from typing import cast

from headgate.core.channels.audience import Kind
from headgate.core.channels.publish_pass import PureOpenPass
from headgate.core.model.binding import ChannelFeed
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.wire.resp.codec.replies import bulk
from headgate.wire.resp.plain import PurePlainHub
from headgate.wire.resp.session import RespSession
from tests.support.resp_hub import Guest, House

CHANNELS = (b"a", b"b", b"news", b"")
FED = Domain.fanout("fed", "app", feeds=(ChannelFeed(("news",)),))
KEYS = (b"key", b"other", b"third", b"")
GUESTS = 5
LONGEST = 4_095
"""The shortest limit of names with which a read may be plain."""


def request(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


def subscription(draw: random.Random) -> bytes:
    words = (b"SUBSCRIBE", b"PSUBSCRIBE", b"UNSUBSCRIBE", b"PUNSUBSCRIBE", b"SSUBSCRIBE")
    expired = b"__keyevent@0__:expired"
    return request(draw.choice(words), draw.choice((*CHANNELS, b"n*", b"*", expired)))


def between(draw: random.Random) -> bytes:
    """What clients send between PUBLISHes, often with one call for each."""
    key, value = draw.choice(KEYS), draw.randbytes(draw.choice((0, 3, 3, 40, 1_024, 1_025)))
    name = draw.choice((b"SET", b"SET", b"set", b"Set"))
    return draw.choice((
        request(b"PING"), request(b"PING"), request(name, key, value), request(name, key, value),
        request(b"GET", key), request(b"get", key), request(b"SET", key, value, b"PX", b"900"),
        request(b"SET", key), request(b"GET", key, value), request(b"APPEND", key, value),
        request(b"SET", b"k" * 101, value),
    ))  # fmt: skip


def rare(draw: random.Random) -> bytes:
    """What leads away from what is plain, or back."""
    return draw.choice((
        request(b"MULTI"), request(b"EXEC"), request(b"HELLO", b"3"), request(b"RESET"),
        request(b"CLIENT", b"REPLY", draw.choice((b"ON", b"OFF", b"SKIP"))),
        request(b"XADD", b"key", b"*", b"a", b"b"), request(b"NONE"), request(b""), b"*0\r\n",
        request(b"PUBLISH", b"a"), b"PING\r\n", b"*1\r\n$1\r\n",
        request(b"PUBLISH", draw.choice(CHANNELS), b"x" * 3_000), b"*1\r\n%4\r\nPING\r\n",
        request(b"PUBLISH", b"n" * draw.choice((LONGEST, LONGEST + 1)), b""), request(b"QUIT"),
        request(b"SPUBLISH", b"a", b"x"), request(b"AUTH", b"no"), request(b"ACL", b"WHOAMI"),
        request(b"SELECT", b"1"), request(b"WATCH", b"key"), request(b"FLUSHDB"),
    ))  # fmt: skip


def read(draw: random.Random) -> bytes:
    """Something that a client sends: mostly PUBLISHes."""
    parts = []
    for _ in range(draw.choice((1, 1, 2, 5, 9, 70))):
        what = draw.random()
        if what < 0.8:
            word = draw.choice((b"PUBLISH", b"PUBLISH", b"publish", b"Publish"))
            body = draw.randbytes(draw.choice((0, 1, 10, 100)))
            parts.append(request(word, draw.choice(CHANNELS), body))
        elif what < 0.97:
            parts.append(between(draw))
        else:
            parts.append(rare(draw))
    data = b"".join(parts)
    return data[: draw.randint(1, len(data))] if draw.random() < 0.1 else data


def limits(draw: random.Random) -> Limits:
    return Limits(
        publish_frames=draw.choice((3, 1_000)),
        publish_bytes=draw.choice((200, 1 << 20)),
        name_bytes=draw.choice((LONGEST, LONGEST, 100)),
        request_bytes=draw.choice((2_000, 1 << 20)),
        keys=draw.choice((2, 1_000)),
        keys_bytes=draw.choice((60, 1 << 20)),
    )


class World:
    """A house and its guests; `by_steps` says which way its sessions take."""

    def __init__(self, draw: random.Random, *, by_steps: bool) -> None:
        notified = draw.choice(("", "", "Ex"))
        self._receive = RespSession._receive_by_steps if by_steps else RespSession.receive
        password, domains = draw.choice((None, None, "secret")), draw.choice(((), (FED,)))
        self.house = House(limits=limits(draw), password=password, domains=domains)
        self.house.hub.flushed_most = draw.choice((3, 2_048))
        if by_steps:
            self._write_by_steps()
        self.house.hub.settings.notify_keyspace_events = notified
        if draw.random() < 0.3:
            budget = self.house.hub.budget
            budget.mailbox_soft, budget.mailbox_hard = 300, 600
        self.guests = [Guest(self.house) for _ in range(GUESTS)]
        self.tapped: list[tuple[bytes, Sequence[bytes]]] = []

    def _write_by_steps(self) -> None:
        """Have the end of a pass go by the steps, too."""
        hub = self.house.hub
        for each, twin in ((hub, PurePlainHub), (hub.channels, PureOpenPass)):
            for name in ("flush_soon", "_flush_some", "flush", "take"):
                if name in vars(twin):
                    setattr(each, name, MethodType(vars(twin)[name], each))

    def act(self, draw: random.Random) -> None:
        guest, what = draw.choice(self.guests), draw.random()
        if what < 0.6:
            self.send(guest, read(draw))
        elif what < 0.75:
            self.send(self.guests[draw.randrange(3)], subscription(draw))
        elif what < 0.87:
            self.house.pass_time()
            self.house.end_pass()
        elif what < 0.9:
            self.house.now += 1
        elif what < 0.93:
            self.house.end_pass()
            guest.is_stuck = True
        elif what < 0.98:
            self.house.end_pass()
            guest.is_stuck = False
            while len(guest.mailbox) and not guest.ended:
                guest.received += cast("bytes", guest.mailbox.first())
                guest.take()
        elif what < 0.99:
            channels = self.house.hub.channels
            channels.tap = None if channels.tap else lambda *said: self.tapped.append(said)
        else:
            # What a monitor is told of its own read may stand before or behind the answers.
            word = draw.choice((b"MONITOR", b"AUTH", b"AUTH"))
            self.send(guest, request(word) if word == b"MONITOR" else request(word, b"secret"))

    def send(self, guest: Guest, data: bytes) -> None:
        if not guest.ended and not guest.paused:
            self._receive(guest.session, data)

    def seen(self) -> object:
        hub = self.house.hub
        said = [(channel, body) for channel, bodies in self.tapped for body in bodies]
        return (
            [self._of(guest) for guest in self.guests],
            (hub.commands, hub.channels.totals(), hub.input_bytes, len(hub.left), said),
            [hub.channels.receivers(Kind.EXACT, channel) for channel in CHANNELS],
            (hub.keys.count, hub.keys.bytes, hub.expired, hub.keys.sizes()),
        )

    def _of(self, guest: Guest) -> object:
        if guest.ended:
            return guest.received, guest.ended
        session, waiting = guest.session, [item for item, _, _ in guest.mailbox._line]
        held = b"".join([cast("bytes", item) for item in waiting])
        state = (guest.paused, session.held, session.pending, session.last_command)
        return guest.received, held, state


def check_sessions(seed: int) -> None:
    """The same clients and reads: the same answers and messages, and the same is counted."""
    draws = random.Random(seed), random.Random(seed)
    quick = World(draws[0], by_steps=False)
    slow = World(draws[1], by_steps=True)
    for _ in range(random.Random(seed).randint(1, 40)):
        quick.act(draws[0])
        slow.act(draws[1])
        if not quick.house.calls and not slow.house.calls:
            # Within a pass one may have written what the other has not.
            assert quick.seen() == slow.seen()
    for world in (quick, slow):
        world.house.end_pass()
        while world.house.pass_time():
            world.house.end_pass()
    assert quick.seen() == slow.seen()
