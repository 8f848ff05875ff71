"""Producers and consumers of shared queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.commands import (
    Close,
    Command,
    Configure,
    Confirm,
    Interest,
    Open,
    Send,
)
from headgate.core.effects import Deliver, Done, Failed, Receipt
from headgate.core.model.domain import Mode
from headgate.core.model.ids import (
    WHOLE,
    AppId,
    MessageId,
    QueueId,
)
from headgate.core.model.message import Message
from headgate.core.model.window import Window
from headgate.errors import Overloaded
from headgate.testing.clients.client import EXPRESSIONS, Client

if TYPE_CHECKING:
    from headgate.testing.world import World


class Producer(Client):
    """A client that posts to a shared queue, and again under the same id until it has a receipt."""

    def __init__(self, world: World, name: str, domain: str, queue: QueueId) -> None:
        super().__init__(world, name)
        self.domain = domain
        self.queue = queue
        self.is_open = False
        self.unsure: list[Message] = []
        """Sent, and not known to have arrived."""

    def forget(self) -> None:
        self.is_open = False

    def act(self) -> None:
        random = self.world.random
        if not self.is_open:
            self._open()
            if random.random() < 0.5:
                return
        if self.unsure and random.random() < 0.5:
            messages = self.unsure[:3]
        else:
            messages = [self.message() for _ in range(random.choice((1, 1, 3)))]
            self.unsure += messages
        self.ask(*(Send(self.session, self.ref(), self.queue, m) for m in messages))

    def _open(self) -> None:
        self.ask(Open(self.session, self.ref(), self.queue, self.domain, WHOLE, False, True))

    def answered(self, command: Command, effect: object) -> None:
        if isinstance(command, Open):
            self.is_open = isinstance(effect, Done)
        elif isinstance(command, Send) and (
            isinstance(effect, Receipt)
            or (isinstance(effect, Failed) and isinstance(effect.error, Overloaded))
        ):
            self.unsure = [m for m in self.unsure if m.id != command.message.id]


class Consumer(Client):
    """A client that reads an app of a shared queue with changing interests."""

    def __init__(
        self, world: World, name: str, domain: str, queue: QueueId, app: AppId = WHOLE
    ) -> None:
        super().__init__(world, name)
        self.domain = domain
        self.queue = queue
        self.app = app
        self.is_open = False
        self.in_hand: dict[MessageId, None] = {}
        self.unsure: dict[MessageId, None] = {}
        """Confirmed without asking for an answer."""

    def forget(self) -> None:
        self.is_open = False
        self.in_hand.clear()
        self.unsure.clear()

    def act(self) -> None:
        random = self.world.random
        kind = random.random()
        if not self.is_open:
            self._open(self._drawn())
        elif kind < 0.15:
            interests = self._drawn() if random.random() < 0.9 else ()
            self.ask(Configure(self.session, self.ref(), self.queue, interests, self.app))
        elif kind < 0.2:
            self.ask(Close(self.session, self.ref(), self.queue, self.app))
            if random.random() < 0.5:
                self._open(self._drawn())
        elif kind < 0.25:
            self._open(self._drawn())  # twice is refused
        elif self.in_hand:
            count = random.randrange(1, len(self.in_hand) + 1)
            self.confirm(list(self.in_hand)[:count], silently=random.random() < 0.2)

    def _drawn(self) -> tuple[Interest, ...]:
        random = self.world.random
        texts = random.sample(EXPRESSIONS, random.choice((1, 1, 2, 3)))
        return tuple(
            Interest(
                text,
                random.choice((0, 0, 1, 2)),
                Window(random.choice((0, 1, 1, 2, 5)), random.choice((None, 100, 1000))),
            )
            for text in texts
        )

    def _open(self, interests: tuple[Interest, ...]) -> None:
        self.ask(
            Open(
                self.session,
                self.ref(),
                self.queue,
                self.domain,
                self.app,
                True,
                False,
                interests,
            )
        )

    def confirm(self, ids: list[MessageId], *, silently: bool = False) -> None:
        ref = None if silently else self.ref()
        self.ask(Confirm(self.session, ref, self.queue, tuple(ids), self.app))
        if silently:
            for id in ids:
                self.in_hand.pop(id, None)
                self.unsure[id] = None

    def answered(self, command: Command, effect: object) -> None:
        done = isinstance(effect, Done)
        if isinstance(command, Open):
            self.is_open = self.is_open or done
        elif isinstance(command, Close):
            if done:
                self.is_open = False
                self.in_hand.clear()
        elif isinstance(command, Confirm):
            if done:
                for id in command.messages:
                    self.in_hand.pop(id, None)
            else:
                self.later(0.1, lambda: self.confirm(list(command.messages)))

    def hear_unasked(self, effect: object) -> None:
        if isinstance(effect, Deliver) and self.world.domains[self.domain].mode is not (
            Mode.BROADCAST
        ):
            random = self.world.random
            id = effect.message.id
            self.in_hand[id] = None
            if self.world.is_calm or random.random() < 0.5:
                self.later(random.uniform(0.0, 0.4), lambda: self._confirm_one(id))

    def _confirm_one(self, id: MessageId) -> None:
        if id in self.in_hand:
            self.confirm([id])

    def finish(self) -> None:
        """Confirm all that came, once more what was confirmed without an answer."""
        left = [*self.in_hand, *self.unsure]
        if left:
            self.confirm(left)


class LastConsumer(Consumer):
    """A consumer that takes what is left in an app of a shared queue."""

    def finish(self) -> None:
        self._open((Interest(None, 0, Window(3)),))
