"""The population of a world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.model.domain import Mode
from headgate.core.model.ids import (
    WHOLE,
)
from headgate.testing.clients.client import SERVICES, SHARED, Client
from headgate.testing.clients.listening import Listener, Publisher
from headgate.testing.clients.people import Heir, Person, Sender
from headgate.testing.clients.sharing import Consumer, LastConsumer, Producer

if TYPE_CHECKING:
    from headgate.testing.world import World


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
    """The clients that read and write the queues of a domain."""
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


def newcomers(world: World) -> list[Client]:
    """Enough people to take everything that is left."""
    records = world.ledger.records
    plain = sorted(q for q, r in records.items() if r.domain == "smp" and r.service is None)
    some = world.limits.queues_per_session
    people: list[Client] = [
        Heir(world, f"heir{n}", plain[n : n + some]) for n in range(0, len(plain), some)
    ]
    people += [Heir(world, f"heir-{s.decode()}", [], s) for s in SERVICES]
    for queue in sorted(records):
        domain = world.domains[records[queue].domain]
        if domain.mode in (Mode.PRIORITY, Mode.FANOUT):
            people += [
                LastConsumer(world, f"last-{queue.decode()}-{app}", domain.name, queue, app)
                for app in (*domain.apps, *world.ledger.groups.get(queue, ()))
            ]
    return people
