"""Who lives in a world: people with exclusive queues, services, producers and consumers of
shared queues, publishers and listeners of channels. All of them are a little careless."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from headgate.core.channels.audience import BARE, Kind
from headgate.core.channels.session_channels import SessionChannels
from headgate.core.commands import (
    Close,
    Command,
    Configure,
    Confirm,
    Create,
    Delete,
    Get,
    Interest,
    Open,
    Send,
    Subscribe,
    SubscribeService,
)
from headgate.core.effects import Deliver, Done, End, Failed, Granted, Receipt
from headgate.core.model.domain import Mode
from headgate.core.model.ids import (
    WHOLE,
    AppId,
    Channel,
    MessageId,
    QueueId,
    Ref,
    ServiceId,
    SessionId,
)
from headgate.core.model.message import Message
from headgate.core.model.tally import Tally
from headgate.core.model.window import Window
from headgate.errors import Overloaded, StoreError
from headgate.testing.network import Blob, Link

if TYPE_CHECKING:
    from headgate.testing.world import World

EXCLUSIVE = tuple(QueueId(b"x%d" % n) for n in range(5))
SHARED = {
    "work": (QueueId(b"work/1"), QueueId(b"work/2")),
    "news": (QueueId(b"news/1"),),
    "live": (QueueId(b"live/1"),),
}
SERVICES = (ServiceId(b"S"), ServiceId(b"T"))
CHANNELS = (Channel(b"red"), Channel(b"blue"))
PATTERNS = (b"*", b"r*", b"?lue")
EXPRESSIONS = (None, "x == 1", "x == 2", "x >= 2", 'kind == "express"', 'x < 2 || kind == "slow"')
BODY_BYTES = (1, 12, 60, 150)
"""Sizes of bodies: some fit many times into a mailbox, some fill it."""

PAUSE = (0.02, 0.6)
"""Seconds between two actions of a client."""


class Client:
    """Somebody who connects, acts now and then, is cut off and comes back."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.link: Link | None = None
        self.gone = False
        self.asked: dict[Ref, Command] = {}
        """What was asked and not answered, on this link."""
        self._refs = 0
        world.clock.after(world.random.uniform(*PAUSE), self._live)

    # What kinds of clients do in their own way.

    def act(self) -> None:
        """Do something, while connected."""

    def answered(self, command: Command, effect: object) -> None:
        """An answer came."""

    def hear_unasked(self, effect: object) -> None:
        """Something came that was not asked for."""

    def forget(self) -> None:
        """The link is gone, and whatever was known by it."""

    def finish(self) -> None:
        """The world is calm: do what is left to do."""

    def may_go_on(self, link: Link) -> None:
        """A publisher need not wait any longer."""

    # Coming and going.

    def _live(self) -> None:
        if self.gone:
            return
        world = self.world
        if self.link is None:
            self.connect()
        elif not world.is_calm:
            self._act()
        if not world.is_calm or self.link is None:
            world.clock.after(world.random.uniform(*PAUSE), self._live)

    def _act(self) -> None:
        link, random = self.link, self.world.random
        assert link is not None, "only who is connected acts"
        if random.random() < self.world.weather.loss:
            if random.random() < 0.3:
                self.world.trace.add(self.name, "says goodbye")
                link.hang_up()
                self.lost(link)
            else:
                link.cut()
        elif not link.is_cut:
            self.act()

    def connect(self) -> None:
        if self.world.router is not None:
            self.link = self.world.router.connect(self)
            self.asked.clear()
            self.forget()
            if self.world.is_calm:
                self.finish()

    def lost(self, link: Link) -> None:
        """The link is no more; a client whose link is newer does not care."""
        if self.link is link:
            self.link = None
            self.asked.clear()
            self.forget()

    def calm(self) -> None:
        if self.link is not None and not self.link.is_cut:
            self.link.bytes_per_second = 1e9
            self.finish()

    def leave(self) -> None:
        self.gone = True
        if self.link is not None:
            self.link.hang_up()
            self.link = None

    # Asking and hearing.

    def ref(self) -> Ref:
        self._refs += 1
        return (self.link.number if self.link is not None else 0, self._refs)

    def ask(self, *commands: Command) -> None:
        """Send commands as one block."""
        if self.link is None:
            return
        for command in commands:
            ref = getattr(command, "ref", None)
            if ref is not None:
                self.asked[ref] = command
        self.link.ask(commands)

    def hear(self, link: Link, effect: object) -> None:
        if link is not self.link:
            return
        command = self.asked.pop(getattr(effect, "ref", None), None)
        if command is not None:
            self.answered(command, effect)
        else:
            self.hear_unasked(effect)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in a while, if the link is still the same one then."""
        link = self.link

        def act() -> None:
            if self.link is link and link is not None and not self.gone:
                action()

        self.world.clock.after(seconds, act)

    @property
    def session(self) -> SessionId:
        assert self.link is not None, "only who is connected has a session"
        return self.link.id

    def message(self, id: MessageId | None = None) -> Message:
        random = self.world.random
        return Message(
            id or MessageId(self.world.next_message()),
            b"." * random.choice(BODY_BYTES),
            self.world.clock.now,
            {"x": random.randrange(4), "kind": random.choice(("express", "slow", "other"))},
        )


class Person(Client):
    """Has exclusive queues, by itself or for a service."""

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
    """Sends to exclusive queues, whoever has them."""

    def act(self) -> None:
        random = self.world.random
        self.ask(
            *(
                Send(self.session, self.ref(), random.choice(EXCLUSIVE), self.message())
                for _ in range(random.choice((1, 1, 1, 4)))
            )
        )


class Producer(Client):
    """Posts to a shared queue, and again under the same id until it has a receipt."""

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
    """Reads an app of a shared queue with changing interests."""

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


class Listener(Client):
    """Hears channels, some of them slowly."""

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
    """Publishes to channels, and waits when it has to."""

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


def populate(world: World) -> list[Client]:
    """A few of some kinds, drawn: a world of few is deep, a world of many is wide."""
    random = world.random
    people: list[Client] = []
    kinds = random.sample(
        ("exclusive", "service", *sorted(SHARED), "channels"), random.choice((1, 2, 2, 3, 5))
    )
    if "exclusive" in kinds or "service" in kinds:
        people += [Person(world, f"person{n}") for n in range(random.randrange(1, 4))]
        people += [Sender(world, f"sender{n}") for n in range(random.randrange(1, 3))]
    if "service" in kinds:
        people += [
            Person(world, f"service{n}", random.choice(SERVICES))
            for n in range(random.randrange(1, 4))
        ]
    for domain in sorted(SHARED):
        if domain in kinds:
            people += _sharers(world, domain)
    if "channels" in kinds:
        people += [Listener(world, f"listener{n}") for n in range(random.randrange(1, 4))]
        people += [Publisher(world, f"publisher{n}") for n in range(random.randrange(1, 4))]
    return people


def _sharers(world: World, domain: str) -> list[Client]:
    """Those who read and write the queues of a domain."""
    random = world.random
    people: list[Client] = []
    for queue in SHARED[domain][: random.randrange(1, 3)]:
        name = queue.decode()
        people += [
            Producer(world, f"producer-{name}-{n}", domain, queue)
            for n in range(random.randrange(1, 3))
        ]
        apps = ("a", "b", "c") if domain == "news" else (WHOLE,)
        people += [
            Consumer(world, f"consumer-{name}-{n}", domain, queue, random.choice(apps))
            for n in range(random.randrange(1, 5))
        ]
    return people


class Heir(Person):
    """Takes what is left in exclusive queues: in some of them, or in all of its service."""

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


class LastConsumer(Consumer):
    """Takes what is left in an app of a shared queue."""

    def finish(self) -> None:
        self._open((Interest(None, 0, Window(3)),))


def newcomers(world: World) -> list[Client]:
    """Enough people to take everything that is left."""
    records = world.ledger.records
    plain = sorted(q for q, r in records.items() if r.domain == "smp" and r.service is None)
    some = world.limits.queues_per_session
    people: list[Client] = [
        Heir(world, f"heir{n}", plain[n : n + some]) for n in range(0, len(plain), some)
    ]
    people += [Heir(world, f"heir-{s.decode()}", [], s) for s in SERVICES]
    for queue in sorted(q for q, r in records.items() if r.domain in ("work", "news")):
        domain = world.domains[records[queue].domain]
        people += [
            LastConsumer(world, f"last-{queue.decode()}-{app}", domain.name, queue, app)
            for app in domain.apps
        ]
    return people
