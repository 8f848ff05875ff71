"""A few words in which the tests of shared queues are told.

A shop has one domain, `orders`, on a rig. Messages are numbered from 1 in the order in which
they are posted; a consumer tells the numbers, or one property, of what it got since it was
last asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from headgate.core.commands import (
    Close,
    Command,
    Configure,
    Confirm,
    Interest,
    Open,
    Reconfigure,
    Send,
    Tick,
)
from headgate.core.effects import Deliver, Done, Effect, Failed, Receipt
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, AppId, MessageId, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import NO_PROPERTIES, Message, Properties, PropertyValue
from headgate.core.model.window import Window
from headgate.core.turn.store_requests import Load, Usage
from headgate.errors import HeadgateError
from headgate.expr.predicate import Predicate, compile_expression
from headgate.store.base import Store
from headgate.testing.rig import Rig, at_once

PRIORITY = Domain("orders", Mode.PRIORITY)
FANOUT = Domain("orders", Mode.FANOUT, apps=("foo", "bar", "baz"))
BROADCAST = Domain("orders", Mode.BROADCAST)

Q = QueueId(b"bmq://orders/q")
OTHER = QueueId(b"bmq://orders/other")

ROOMY = Window(1000, 1 << 25)

NEVER = "x < 0 && x > 0"

Want: TypeAlias = str | Interest | None
"""A subscription: only its expression, none for everything, or all of it."""


def filters(**apps: str | tuple[str, ...]) -> dict[AppId, tuple[Predicate, ...]]:
    """Application subscriptions, by app."""
    return {
        app: tuple(
            compile_expression(text) for text in ((texts,) if isinstance(texts, str) else texts)
        )
        for app, texts in apps.items()
    }


def for_all(*texts: str) -> dict[AppId, tuple[Predicate, ...]]:
    """Application subscriptions of a queue without apps."""
    return {WHOLE: tuple(compile_expression(text) for text in texts)}


APPS = replace(FANOUT, filters=filters(foo="x == 1", bar="x == 2"))
"""A fanout domain two of whose three apps have a subscription."""


def message_id(number: int) -> MessageId:
    return MessageId(b"%08d" % number)


def number_of(message: Message) -> int:
    return int(message.id)


class Shop:
    """One domain, one producer per queue, and whoever comes to consume."""

    def __init__(
        self,
        domain: Domain = PRIORITY,
        *,
        limits: Limits | None = None,
        store: Store | None = None,
        now: float = 1000.0,
        first: int = 1,
    ) -> None:
        self.domain = domain
        self.rig = Rig(domain, limits=limits, store=store, now=now)
        self.producers: dict[QueueId, SessionId] = {}
        self.delivered: dict[tuple[SessionId, QueueId, AppId], list[Deliver]] = {}
        self.next_number = first
        self._ref = 0

    # Doing.

    def do(self, *commands: Command) -> list[Effect]:
        """One turn; what it delivers is noted for the consumers."""
        return self.note(self.rig.do(*commands))

    def note(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Deliver):
                key = (effect.session, effect.queue, effect.app)
                self.delivered.setdefault(key, []).append(effect)
        return effects

    def ref(self) -> int:
        self._ref += 1
        return self._ref

    def ask(self, command: Open | Configure | Close | Send | Confirm) -> HeadgateError | None:
        """Do one request, which must be answered once; return the error, if it failed."""
        effects = self.do(command)
        replies = [e for e in effects if isinstance(e, Done | Failed | Receipt)]
        assert len(replies) == 1, f"{command} was answered with {replies}"
        [reply] = replies
        assert (reply.session, reply.ref) == (command.session, command.ref)
        assert isinstance(reply, Failed | (Receipt if isinstance(command, Send) else Done))
        return reply.error if isinstance(reply, Failed) else None

    # Producing.

    def producer(self, queue: QueueId = Q) -> SessionId:
        """The session that writes to the queue."""
        if queue not in self.producers:
            session = self.rig.session("producer")
            opened = self.ask(
                Open(session, self.ref(), queue, self.domain.name, WHOLE, False, True)
            )
            assert opened is None, opened
            self.producers[queue] = session
        return self.producers[queue]

    def sending(
        self,
        number: int,
        properties: Properties = NO_PROPERTIES,
        *,
        body: bytes | None = None,
        queue: QueueId = Q,
    ) -> Send:
        """The command that posts a message, not yet done."""
        body = b"body %d" % number if body is None else body
        posted = Message(message_id(number), body, self.rig.now, properties)
        return Send(self.producer(queue), self.ref(), queue, posted)

    def number(self) -> int:
        """The number of the next message."""
        self.next_number += 1
        return self.next_number - 1

    def try_post(
        self, *, body: bytes | None = None, queue: QueueId = Q, **properties: PropertyValue
    ) -> HeadgateError | None:
        """Post a message; return the error, if it was refused."""
        sending = self.sending(self.next_number, dict(properties), body=body, queue=queue)
        error = self.ask(sending)
        if error is None:
            self.number()
        return error

    def post(
        self, *, body: bytes | None = None, queue: QueueId = Q, **properties: PropertyValue
    ) -> int:
        """Post a message; return its number."""
        error = self.try_post(body=body, queue=queue, **properties)
        assert error is None, error
        return self.next_number - 1

    def post_each(self, *xs: PropertyValue) -> list[int]:
        """Post a message for each value of the property `x`."""
        return [self.post(x=x) for x in xs]

    def post_many(self, count: int) -> list[int]:
        """Post messages without properties."""
        return [self.post() for _ in range(count)]

    # Consuming.

    def consumer(
        self,
        *wants: Want,
        app: AppId = WHOLE,
        priority: int = 0,
        window: int | Window = ROOMY,
        queue: QueueId = Q,
    ) -> Consumer:
        """A new session that reads the queue. Without a subscription it wants everything."""
        consumer = Consumer(self, self.rig.session("consumer"), app, queue)
        error = consumer.open(*wants, priority=priority, window=window)
        assert error is None, error
        return consumer

    def stranger(self, *, app: AppId = WHOLE, queue: QueueId = Q) -> Consumer:
        """A session that has nothing open."""
        return Consumer(self, self.rig.session("stranger"), app, queue)

    # Time, settings, and what is there.

    def pass_time(self, seconds: float) -> None:
        self.rig.now += seconds
        self.do(Tick())

    def reconfigure(self, domain: Domain) -> None:
        self.domain = domain
        self.do(Reconfigure(domain))

    def restarted(self, domain: Domain | None = None, *, limits: Limits | None = None) -> Shop:
        """The same store under a new router."""
        return Shop(
            domain or self.domain,
            limits=limits,
            store=self.rig.store,
            now=self.rig.now,
            first=self.next_number,
        )

    def usage(self) -> Usage:
        """What the store holds of the domain."""
        name = self.domain.name
        return at_once(self.rig.store.load(Load(usage={name}))).usage[name]

    def stored(self, queue: QueueId = Q) -> dict[int, tuple[AppId, ...]]:
        """The messages in the store, each with the apps that have not confirmed it."""
        backlogs = at_once(self.rig.store.load(Load(backlogs={queue}))).backlogs
        if queue not in backlogs:
            return {}
        return {int(entry.id): entry.apps for entry in backlogs[queue][1]}


class Consumer:
    """One session that reads one app of one queue."""

    def __init__(self, shop: Shop, session: SessionId, app: AppId, queue: QueueId) -> None:
        self.shop = shop
        self.session = session
        self.app = app
        self.queue = queue
        self._seen = 0

    def __repr__(self) -> str:
        return f"<Consumer {self.session} of {self.app!r}>"

    # Asking.

    def open(
        self, *wants: Want, priority: int = 0, window: int | Window = ROOMY
    ) -> HeadgateError | None:
        shop = self.shop
        interests = interests_of(wants or (None,), priority, window)
        return shop.ask(
            Open(
                self.session,
                shop.ref(),
                self.queue,
                shop.domain.name,
                self.app,
                True,
                False,
                interests,
            )
        )

    def try_configure(
        self, *wants: Want, priority: int = 0, window: int | Window = ROOMY
    ) -> HeadgateError | None:
        return self.shop.ask(self.configuring(*wants, priority=priority, window=window))

    def configuring(
        self, *wants: Want, priority: int = 0, window: int | Window = ROOMY
    ) -> Configure:
        interests = interests_of(wants, priority, window)
        return Configure(self.session, self.shop.ref(), self.queue, interests, self.app)

    def configure(self, *wants: Want, priority: int = 0, window: int | Window = ROOMY) -> None:
        """Replace all subscriptions; with no `wants` there are none."""
        error = self.try_configure(*wants, priority=priority, window=window)
        assert error is None, error

    def confirming(self, *numbers: int) -> Confirm:
        ids = tuple(message_id(number) for number in numbers)
        return Confirm(self.session, None, self.queue, ids, self.app)

    def confirm(self, *numbers: int) -> None:
        """Confirm some messages, without asking for a reply."""
        replies = [e for e in self.shop.do(self.confirming(*numbers)) if not isinstance(e, Deliver)]
        assert replies == []

    def close(self) -> None:
        error = self.shop.ask(Close(self.session, self.shop.ref(), self.queue, self.app))
        assert error is None, error

    def crash(self) -> None:
        self.shop.note(self.shop.rig.leave(self.session, lost=True))

    def stop(self) -> None:
        """The session ends with a goodbye."""
        self.shop.note(self.shop.rig.leave(self.session, lost=False))

    # Telling.

    def news(self) -> list[Deliver]:
        """The deliveries since it was last asked."""
        all_ = self.shop.delivered.get((self.session, self.queue, self.app), [])
        news, self._seen = all_[self._seen :], len(all_)
        return news

    def got(self) -> list[int]:
        """The numbers of the messages since it was last asked."""
        return [number_of(delivery.message) for delivery in self.news()]

    def got_x(self) -> list[PropertyValue]:
        """The property `x` of the messages since it was last asked."""
        return [delivery.message.properties["x"] for delivery in self.news()]


def interests_of(
    wants: Iterable[Want], priority: int, window: int | Window
) -> tuple[Interest, ...]:
    window = Window(window) if isinstance(window, int) else window
    return tuple(
        want if isinstance(want, Interest) else Interest(want, priority, window) for want in wants
    )


def fanout(shop: Shop) -> tuple[Consumer, Consumer, Consumer]:
    """A consumer of each of the three apps."""
    foo, bar, baz = (shop.consumer(app=app) for app in ("foo", "bar", "baz"))
    return foo, bar, baz


class Counting(dict[str, PropertyValue]):
    """Properties that count how often each is read."""

    def __init__(self, **properties: PropertyValue) -> None:
        super().__init__(properties)
        self.reads: list[str] = []

    def __getitem__(self, name: str) -> PropertyValue:
        self.reads.append(name)
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> object:  # type: ignore[override]
        self.reads.append(name)
        return super().get(name, default)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)
