"""People and services with exclusive queues, and who sends to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headgate.core.commands import (
    Command,
    Confirm,
    Create,
    Delete,
    Get,
    Send,
    Subscribe,
    SubscribeService,
)
from headgate.core.effects import Deliver, End, Failed, Granted
from headgate.core.model.ids import (
    MessageId,
    QueueId,
    ServiceId,
)
from headgate.core.model.tally import Tally
from headgate.errors import StoreError
from headgate.testing.clients.client import EXCLUSIVE, Client

if TYPE_CHECKING:
    from headgate.testing.world import World


class Person(Client):
    """A client that has exclusive queues, by itself or for a service."""

    def __init__(self, world: World, name: str, service: ServiceId | None = None) -> None:
        super().__init__(world, name)
        self.service = service
        self.in_hand: dict[QueueId, MessageId] = {}
        """Delivered and not confirmed."""
        self.queues: set[QueueId] = set()
        """Granted."""

    def forget(self) -> None:
        self.in_hand.clear()
        self.queues.clear()

    def act(self) -> None:
        random = self.world.random
        count = 1 if random.random() < 0.7 else random.randrange(2, 5)
        self.ask(*(command for _ in range(count) for command in self._drawn()))

    def _drawn(self) -> Iterable[Command]:
        random, session = self.world.random, self.session
        queue = random.choice(EXCLUSIVE)
        kind = random.random()
        if kind < 0.2:
            subscribe = random.random() < 0.7
            yield Create(session, self.ref(), queue, "smp", subscribe, self.service)
        elif kind < 0.5:
            yield Subscribe(session, self.ref(), queue, self.service)
        elif kind < 0.6:
            yield Get(session, self.ref(), queue)
        elif kind < 0.63:
            yield Delete(session, self.ref(), queue)
        elif kind < 0.75 and self.service is not None:
            expected = Tally(1, 1) if random.random() < 0.2 else None
            yield SubscribeService(session, self.ref(), self.service, expected)
        elif kind < 0.8:
            yield self._confirming(queue, MessageId(b"m1"))
        elif kind < 0.85 and queue in self.in_hand:
            yield self._confirming(queue)
        elif queue in self.in_hand:
            yield self._confirming(queue, self.in_hand[queue])

    def _confirming(self, queue: QueueId, *ids: MessageId) -> Confirm:
        return Confirm(self.session, self.ref(), queue, ids)

    def answered(self, command: Command, effect: object) -> None:
        if isinstance(effect, Deliver):
            self.hear_unasked(effect)
        elif isinstance(effect, Granted):
            self.queues.add(effect.queue)
        elif isinstance(command, Confirm) and command.messages:
            if isinstance(effect, Failed) and isinstance(effect.error, StoreError):
                again = self._confirming(command.queue, *command.messages)
                self.later(0.1, lambda: self.ask(again))
            elif self.in_hand.get(command.queue) in command.messages:
                del self.in_hand[command.queue]

    def hear_unasked(self, effect: object) -> None:
        if isinstance(effect, Deliver):
            self.in_hand[effect.queue] = effect.message.id
            random = self.world.random
            if self.world.is_calm or random.random() < 0.6:
                self.later(random.uniform(0.0, 0.3), lambda: self._confirm(effect))
        elif isinstance(effect, End):
            self.queues.discard(effect.queue)
            self.in_hand.pop(effect.queue, None)

    def _confirm(self, delivery: Deliver) -> None:
        if self.in_hand.get(delivery.queue) == delivery.message.id:
            self.ask(self._confirming(delivery.queue, delivery.message.id))

    def finish(self) -> None:
        for queue, id in sorted(self.in_hand.items()):
            self.ask(self._confirming(queue, id))


class Sender(Client):
    """A client that sends to exclusive queues, whoever has them."""

    def act(self) -> None:
        random = self.world.random
        self.ask(
            *(
                Send(self.session, self.ref(), random.choice(EXCLUSIVE), self.message())
                for _ in range(random.choice((1, 1, 1, 4)))
            )
        )


class Heir(Person):
    """A client that takes what is left in exclusive queues: in some of them, or in all of its
    service."""

    def __init__(
        self, world: World, name: str, queues: list[QueueId], service: ServiceId | None = None
    ) -> None:
        super().__init__(world, name, service)
        self.left = queues

    def finish(self) -> None:
        if self.service is not None:
            self.ask(SubscribeService(self.session, self.ref(), self.service))
        for queue in self.left:
            self.ask(Subscribe(self.session, self.ref(), queue))
