"""Clients that make groups of their own, look at histories, and publish on channels that feed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.core.effects import ref_of
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, AppId, QueueId
from headgate.core.model.stream_id import FIRST, StreamId
from headgate.core.reader_commands import (
    Add,
    Browse,
    DropGroup,
    Feed,
    FeedPart,
    MakeGroup,
    MoveGroup,
    Range,
    RemoveMessages,
    Trim,
    TrimTo,
    View,
    Withdraw,
)
from headgate.testing.clients.client import EXPRESSIONS, Client
from headgate.testing.clients.reading import Patron
from headgate.testing.clients.sharing import Consumer, Producer

if TYPE_CHECKING:
    from headgate.testing.world import World

LOG = QueueId(b"log/1")
FED = QueueId(b"fed/1")
GROUPS: tuple[AppId, ...] = ("g", "h", "i")
LAST = StreamId(1 << 60, 0)

GROUP_DOMAINS = (
    Domain.fanout(
        "log",
        groups="open",
        max_groups=2,
        keep_messages=1000,
        max_messages=None,
        message_ttl=None,
        consumer_grace=0.5,
        max_delivery_attempts=1,
        dead_letter="dead",
    ),
    Domain.fanout("dead", keep_messages=1000, message_ttl=None),
    Domain("fed", Mode.PRIORITY, max_messages=6, message_ttl=None, consumer_grace=0.5),
)
"""What is given up in one domain is kept in another; one is often full."""


def narrow_history(domains: tuple[Domain, ...], kept: int) -> tuple[Domain, ...]:
    """Narrow the domain to so many messages of a queue, those that are kept included."""
    log, *others = domains
    return (replace(log, keep_messages=kept, max_messages=4 * kept), *others)


class Member(Patron):
    """A client that reads by a group that it or others make, and may be gone again."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, "log", LOG, world.random.choice(GROUPS))
        self.browse: Browse | None = None

    def forget(self) -> None:
        super().forget()
        self.browse = None

    def act(self) -> None:
        random = self.world.random
        kind = random.random()
        if self.browse is not None:
            if kind < 0.3:
                self.ask(Withdraw(self.session, self.browse.ref))
        elif self.waiting is not None or kind < 0.7:
            super().act()
        elif kind < 0.8:
            where = random.choice((None, None, *EXPRESSIONS))
            of = (self.session, self.ref(), LOG, "log", self.app)
            self.ask(MakeGroup(*of, self._place(), makes=True, where=where))
        elif kind < 0.82:
            self.ask(DropGroup(self.session, self.ref(), LOG, "log", self.app))
        elif kind < 0.85:
            of = (self.session, self.ref(), LOG, "log", self.app)
            self.ask(MoveGroup(*of, self._place()))
        else:
            self._look()

    def _place(self) -> StreamId | None:
        return self.world.random.choice((None, FIRST, *self.known, *self.added[-3:]))

    def _look(self) -> None:
        random = self.world.random
        session, ref, count = self.session, self.ref(), random.choice((None, 1, 3))
        first = random.choice((FIRST, *self.added[-3:]))
        kind = random.random()
        if kind < 0.4:
            is_reversed = random.random() < 0.5
            self.ask(Range(session, ref, LOG, "log", first, LAST, count, newest_first=is_reversed))
        elif kind < 0.7:
            waits = random.random() < 0.5
            view = View(LOG, "log", random.choice((None, first)))
            browse = Browse(session, ref, (view,), count, waits)
            if waits:
                self.browse = browse
            self.ask(browse)
        elif kind < 0.8:
            self.ask(Trim(session, ref, LOG, "log", TrimTo(messages=random.choice((0, 5)))))
        elif kind < 0.9 and self.added:
            self.ask(RemoveMessages(session, ref, LOG, "log", (random.choice(self.added),)))
        else:
            trim = TrimTo(messages=random.choice((3, 20)))
            self.ask(Add(session, ref, LOG, "log", self.message(), trim=trim))

    def hear_unasked(self, effect: object) -> None:
        browse = self.browse
        if browse is not None and ref_of(effect) == browse.ref:
            self.browse = None
        super().hear_unasked(effect)

    def finish(self) -> None:
        if self.browse is not None:
            self.ask(Withdraw(self.session, self.browse.ref))
        super().finish()


class Announcer(Client):
    """A client that publishes on a channel that feeds two domains, of which one is often full."""

    def act(self) -> None:
        random = self.world.random
        message = self.message()
        kind = random.random()
        waits = kind < 0.3 and not any(isinstance(each, Feed) for each in self.asked.values())
        parts = (
            FeedPart(LOG, "log", message),
            FeedPart(FED, "fed", self.message(), drops=kind > 0.6, waits=waits),
        )
        self.ask(Feed(self.session, self.ref(), b"news", message.body, parts, may_wait=waits))


def populate_with_groups(world: World) -> list[Client]:
    """Members of groups that come and go, and around them whoever else uses these queues."""
    random = world.random
    people: list[Client] = [Producer(world, "producer-log", "log", LOG)]
    people += [Member(world, f"member-{n}") for n in range(random.randrange(2, 6))]
    people += [Announcer(world, f"announcer-{n}") for n in range(random.randrange(0, 3))]
    people += [
        Consumer(world, f"consumer-{n}", "log", LOG, random.choice(GROUPS))
        for n in range(random.randrange(0, 2))
    ]
    people += [Patron(world, "patron-fed", "fed", FED, WHOLE)]
    return people
