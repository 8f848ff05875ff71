"""Messages that look like real use of a broker with routing, drawn from a seed, for both peers.

A shop's events: where from, what, how urgent, how much, and some more properties that nobody asks
about; bodies log-normal. Every app of the queue gets every message, and in an app it goes to the
one consumer that wants its region and kind. Half of the consumers are slow, which is to say that
they hold only a few messages unconfirmed. For RabbitMQ a consumer has a queue with a binding for
each region and kind, to a topic or a headers exchange.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from random import Random
from typing import Any, TypeAlias

from pika import spec  # type: ignore[import-untyped]

import headgate.wire.bmq.codec.control as c
from bench.rabbit import EXCHANGE, AmqpLink, Publishes
from bench.route_load import (
    QUEUE,
    READ,
    UNLIMITED_BYTES,
    WRITE,
    Address,
    Batch,
    BmqLink,
    Link,
    Puts,
    Route,
)
from headgate.wire.bmq.codec.messages import Push
from headgate.wire.bmq.codec.payload import open_data

KINDS = ("order", "payment", "refund", "parcel")
LEVELS = ("low", "normal", "high")
NAMES = ("customer", "source", "trace", "currency", "language", "attempt")
"""Of properties that nobody asks about."""
CATALOGUE = 2_000
"""Messages that are drawn; a round is drawn from these."""
SLOW, FAST = 16, 1_000
"""Messages that a consumer holds unconfirmed."""
TOGETHER = (1, 60)
"""Messages that are written to the socket together, from and to."""

Want: TypeAlias = tuple[str, str]
"""A region and a kind."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A message."""

    region: str
    kind: str
    properties: dict[str, str | int | bool]
    body: bytes

    @property
    def key(self) -> str:
        """What a topic exchange looks at."""
        return f"{self.region}.{self.kind}.{self.properties['level']}"


@dataclass(frozen=True)
class MixShape:
    """What is drawn. Consumers have numbers over all apps."""

    name: str
    apps: int
    each: int
    """Consumers of an app."""
    regions: int
    body_median: float = 300.0
    body_spread: float = 1.0
    bodies: tuple[int, int] = (20, 16_000)
    seed: int = 1

    @property
    def consumers(self) -> int:
        return self.apps * self.each

    @property
    def subscriptions(self) -> int:
        """Of an app."""
        return self.regions * len(KINDS)

    @property
    def app_names(self) -> list[str]:
        return [f"app{number}" for number in range(self.apps)]

    def wants(self, consumer: int) -> list[Want]:
        """What a consumer wants: its share of the regions and kinds."""
        all_of_them = [(f"r{n}", kind) for n in range(self.regions) for kind in KINDS]
        return all_of_them[consumer % self.each :: self.each]

    def window(self, consumer: int) -> int:
        return SLOW if consumer % 2 else FAST

    def takers(self, number: int) -> list[int]:
        """The consumers that get a message."""
        message = self.catalogue[number]
        want = message.region, message.kind
        return [each for each in range(self.consumers) if want in self.wants(each)]

    @cached_property
    def catalogue(self) -> list[Drawn]:
        random = Random(self.seed)
        weights = list(accumulate(1 / rank for rank in range(1, self.regions + 1)))
        found = []
        for number in range(CATALOGUE):
            [region] = random.choices(range(self.regions), cum_weights=weights)
            kind = random.choice(KINDS)
            properties: dict[str, str | int | bool] = {
                "region": f"r{region}",
                "kind": kind,
                "level": random.choice(LEVELS),
                "amount": random.randrange(1_000_000),
                "vip": random.random() < 0.1,
            }
            for name in random.sample(NAMES, random.randrange(len(NAMES))):
                properties[name] = f"{name}-{random.randrange(10**6)}"
            size = int(random.lognormvariate(0, self.body_spread) * self.body_median)
            rest = random.randbytes(max(self.bodies[0], min(size, self.bodies[1])))
            found.append(Drawn(f"r{region}", kind, properties, b"%d." % number + rest))
        return found

    def content(self, number: int) -> tuple[dict[str, str | int | bool], bytes]:
        message = self.catalogue[number]
        return message.properties, message.body

    def drawn(self, messages: int, random: Random) -> list[int]:
        return [random.randrange(CATALOGUE) for _ in range(messages)]


class MixRoute(Route):
    """A queue with apps, or an exchange with queues; pipelines of drawn length."""

    shape: MixShape  # type: ignore[assignment]

    def __init__(
        self, shape: MixShape, poster: Link, readers: Sequence[Link], *, is_acked: bool
    ) -> None:
        super().__init__(shape, poster, readers, is_acked=is_acked)  # type: ignore[arg-type]
        self.copies = shape.apps

    def _draw(self, messages: int) -> list[int]:
        drawn = self.shape.drawn(messages, self._random)
        self._batches = [Batch(self.encode(some), len(some)) for some in self._cut(drawn)]
        return drawn

    def _cut(self, drawn: Sequence[int]) -> Iterator[Sequence[int]]:
        start = 0
        while start < len(drawn):
            end = start + self._random.randint(*TOGETHER)
            yield drawn[start:end]
            start = end

    def check(self, messages: int) -> None:
        drawn = self._draw(messages)
        for reader in self._readers:
            reader.noted = []
        self.run()
        arrived: Counter[tuple[int, bytes]] = Counter()
        for consumer, reader in enumerate(self._readers):
            assert reader.noted is not None, "it was asked to"
            arrived.update((consumer, body) for _, body in reader.noted)
            reader.noted = None
        wanted = Counter(
            (consumer, self.shape.catalogue[number].body)
            for number in drawn
            for consumer in self.shape.takers(number)
        )
        assert arrived == wanted, "each message once in each app, where it is wanted"


# Ours.


class MixLink(BmqLink):
    """A consumer of one app."""

    def __init__(self, address: Address, shape: MixShape, consumer: int) -> None:
        app = shape.app_names[consumer // shape.each]
        super().__init__(address, "mix", READ, consumer, app)
        self._shape = shape
        limits = c.ConsumerInfo(shape.window(consumer), UNLIMITED_BYTES, 0, 1)
        subscriptions = tuple(
            c.ConsumerSubscription(
                number, c.Expression(1, f'region == "{region}" && kind == "{kind}"'), (limits,)
            )
            for number, (region, kind) in enumerate(shape.wants(consumer), 1)
        )
        self._ask(c.ConfigureStream(QUEUE, c.StreamParameters(app, subscriptions)))

    def _note(self, pushes: Sequence[Push]) -> None:
        assert self.noted is not None, "somebody wants to know"
        for push in pushes:
            properties, body = open_data(
                push.data, has_properties=True, compression=0, schema=0, bytes_max=1 << 20
            )
            message = self._shape.catalogue[int(body.partition(b".")[0])]
            assert properties == message.properties, "properties as they were posted"
            self.noted.append((self._consumer, body))


class BmqMix(MixRoute):
    def __init__(self, address: Address, shape: MixShape, *, is_acked: bool) -> None:
        readers = [MixLink(address, shape, consumer) for consumer in range(shape.consumers)]
        poster = BmqLink(address, "mix", WRITE)
        for link in (poster, *readers):
            link.free()
        super().__init__(shape, poster, readers, is_acked=is_acked)
        self._puts = Puts(is_acked=is_acked, content=shape.content)

    def encode(self, customers: Sequence[int]) -> bytes:
        return self._puts.encode(customers)


# RabbitMQ.


class RabbitMix(MixRoute):
    """A connection for each consumer, which has a window of its own."""

    def __init__(
        self, address: Address, shape: MixShape, exchange: str, *, is_durable: bool
    ) -> None:
        poster = AmqpLink(address, is_confirmed=is_durable)
        poster.ask(
            spec.Exchange.Declare(exchange=EXCHANGE, type=exchange, durable=is_durable),
            spec.Exchange.DeclareOk,
        )
        readers = []
        for consumer in range(shape.consumers):
            readers.append(link := AmqpLink(address))
            name = f"mix{consumer}"
            link.ask(spec.Queue.Declare(queue=name, durable=is_durable), spec.Queue.DeclareOk)
            binds = [
                spec.Queue.Bind(queue=name, exchange=EXCHANGE, **_binding(want, exchange))
                for want in shape.wants(consumer)
            ]
            link.ask_many(binds, spec.Queue.BindOk)
            link.ask(spec.Basic.Qos(prefetch_count=shape.window(consumer)), spec.Basic.QosOk)
            asked = spec.Basic.Consume(queue=name, consumer_tag=str(consumer))
            link.ask(asked, spec.Basic.ConsumeOk)
        for link in (poster, *readers):
            link.free()
        super().__init__(shape, poster, readers, is_acked=is_durable)
        self._publishes = Publishes(
            EXCHANGE,
            (lambda number: shape.catalogue[number].key) if exchange == "topic" else "",
            is_durable=is_durable,
            content=shape.content,
        )

    def encode(self, customers: Sequence[int]) -> bytes:
        return self._publishes.encode(customers)


def _binding(want: Want, exchange: str) -> dict[str, Any]:
    region, kind = want
    if exchange == "topic":
        return {"routing_key": f"{region}.{kind}.*"}
    return {"routing_key": "", "arguments": {"x-match": "all", "region": region, "kind": kind}}
