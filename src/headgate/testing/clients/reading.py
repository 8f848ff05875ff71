"""Clients that fetch by the names of readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.commands import Command, Interest
from headgate.core.effects import Deliver, ref_of
from headgate.core.model.ids import WHOLE, AppId, QueueId
from headgate.core.model.stream_id import FIRST, StreamId, stream_id
from headgate.core.reader_commands import (
    Acknowledge,
    Add,
    DropReader,
    Pull,
    TakeOver,
    Want,
    Withdraw,
)
from headgate.core.reader_effects import Added
from headgate.testing.clients.client import EXPRESSIONS, SHARED, Client
from headgate.testing.clients.sharing import Consumer, Producer

if TYPE_CHECKING:
    from headgate.testing.world import World

NAMES = (b"ann", b"bob", b"cat")


class Patron(Client):
    """A client that fetches by a name that others may use as well, confirms, claims, and adds."""

    def __init__(
        self, world: World, name: str, domain: str, queue: QueueId, app: AppId = WHOLE
    ) -> None:
        super().__init__(world, name)
        self.domain = domain
        self.queue = queue
        self.app = app
        self.reader = world.random.choice(NAMES)
        self.known: dict[StreamId, None] = {}
        """Ids that it was given, and has not confirmed."""
        self.added: list[StreamId] = []
        """Ids of what it added, whoever has it."""
        self.waiting: Pull | None = None

    def forget(self) -> None:
        """Whether it only lost its connection, or itself."""
        self.waiting = None
        if self.world.random.random() < 0.5:
            self.known.clear()

    def act(self) -> None:
        random = self.world.random
        kind = random.random()
        if self.waiting is not None:
            if kind < 0.3:
                self.ask(Withdraw(self.session, self.waiting.ref))
        elif kind < 0.45:
            self._pull(waits=random.random() < 0.5)
        elif kind < 0.5:
            self._pull(after=random.choice([FIRST, *self.known]))
        elif kind < 0.65:
            self._add()
        elif kind < 0.7:
            self._take_over()
        elif kind < 0.72:
            ref = self.ref()
            name = random.choice(NAMES)
            self.ask(DropReader(self.session, ref, self.queue, self.domain, self.app, name))
        elif self.known:
            count = random.randrange(1, len(self.known) + 1)
            self._acknowledge([*list(self.known)[:count], *self.added[-1:]])

    def _pull(self, *, waits: bool = False, after: StreamId | None = None) -> None:
        random = self.world.random
        pull = Pull(
            self.session,
            self.ref(),
            (Want(self.queue, self.domain, self.app, after),),
            self.reader,
            Interest(random.choice(EXPRESSIONS), random.choice((0, 0, 1))),
            random.choice((None, 1, 2)),
            waits,
            confirms=random.random() < 0.1,
            claims=random.choice((None, None, None, 0.0, 0.5)),
        )
        if waits:
            self.waiting = pull
        self.ask(pull)

    def _add(self) -> None:
        self.ask(Add(self.session, self.ref(), self.queue, self.domain, self.message()))

    def _take_over(self) -> None:
        random = self.world.random
        ids = (*self.known, *self.added[-5:])
        self.ask(
            TakeOver(
                self.session,
                self.ref(),
                self.queue,
                self.domain,
                self.app,
                self.reader,
                random.choice((0.0, 0.5)),
                random.choice((None, ids, ids)) or None,
                count=random.choice((1, 5)),
                forced=random.random() < 0.6,
                only_ids=random.random() < 0.3,
            )
        )

    def _acknowledge(self, ids: list[StreamId]) -> None:
        for id in ids:
            self.known.pop(id, None)
        ref = self.ref()
        self.ask(Acknowledge(self.session, ref, self.queue, self.domain, self.app, tuple(ids)))

    def answered(self, command: Command, effect: object) -> None:
        self.hear_unasked(effect)

    def hear_unasked(self, effect: object) -> None:
        if isinstance(effect, Deliver):
            self.known[stream_id(effect.message.arrived, effect.seq)] = None
        elif isinstance(effect, Added) and effect.id is not None:
            self.added.append(effect.id)
        elif self.waiting is not None and ref_of(effect) == self.waiting.ref:
            self.waiting = None

    def finish(self) -> None:
        """Wait for nothing more, and confirm what came."""
        if self.waiting is not None:
            self.ask(Withdraw(self.session, self.waiting.ref))
        if self.known:
            self._acknowledge(list(self.known))


def populate_with_readers(world: World) -> list[Client]:
    """Readers, and around them producers and consumers of another kind."""
    random = world.random
    people: list[Client] = []
    for domain in random.sample(("work", "news"), random.choice((1, 2))):
        queue = SHARED[domain][0]
        apps = ("a", "b", "c") if domain == "news" else (WHOLE,)
        people += [Producer(world, f"producer-{domain}", domain, queue)]
        people += [
            Patron(world, f"patron-{domain}-{n}", domain, queue, random.choice(apps))
            for n in range(random.randrange(1, 5))
        ]
        people += [
            Consumer(world, f"consumer-{domain}-{n}", domain, queue, random.choice(apps))
            for n in range(random.randrange(0, 3))
        ]
    return people
