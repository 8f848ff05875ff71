"""Runs of shared queues: the same as message by message."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

import pytest

from headgate.core.commands import Command
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.core.model.stream_id import StreamId, id_of, stream_id
from headgate.core.model.window import Window
from headgate.core.shared.runs import AcknowledgedRun, ConfirmedRun, GivenRun, PulledRun
from headgate.core.turn.store_requests import Batch
from headgate.core.turn.turn import BREATH_WORK
from headgate.testing.picture import CACHES, differences, snapshot
from tests.support.readers import Patron
from tests.support.shared_queues import FANOUT, PRIORITY, Consumer, Q, Shop

pytestmark = pytest.mark.once

DOMAINS = (
    PRIORITY,
    replace(PRIORITY, max_messages=40, deduplication_time=0.0),
    replace(PRIORITY, max_delivery_attempts=3),
    replace(PRIORITY, keep_messages=5),
    FANOUT,
    replace(FANOUT, apps=("foo",)),
)
PASSED_OVER = CACHES | {"_unsampled"}
"""Its keys have no order that two shops share."""
WANTS = (None, "x == 1", "x >= 0")


class Pair:
    """Two shops to which the same happens: one with runs, one that goes message by message."""

    def __init__(self, domain: Domain, limits: Limits) -> None:
        self.shops = Shop(domain, limits=limits), Shop(domain, limits=limits)
        self.consumers: list[tuple[Consumer, Consumer]] = []
        self.readers: list[tuple[Patron, Patron]] = []

    def read(self, name: bytes, want: str | None, app: str) -> None:
        first, second = (Patron(shop, name, app=app, where=want) for shop in self.shops)
        self.readers.append((first, second))

    @property
    def ids(self) -> list[StreamId]:
        """Of what readers were given, and of what is there."""
        one = self.shops[0]
        given = (each for found in one.delivered.values() for each in found if each.seq)
        there = one.rig.shard.shared.queues[Q].entries.values()
        old = (stream_id(each.message.arrived, each.seq) for each in given)
        return sorted({*old, *map(id_of, there)})

    def join(self, want: str | None, window: Window, app: str) -> None:
        first, second = (shop.consumer(want, window=window, app=app) for shop in self.shops)
        self.consumers.append((first, second))

    def do(self, *pairs: tuple[Command, Command]) -> None:
        for place, shop in enumerate(self.shops):
            with ExitStack() as stack:
                if place == 1:
                    for run in (GivenRun, PulledRun):
                        stack.enter_context(patch.object(run, "give", lambda *_: 0))
                    stack.enter_context(patch.object(AcknowledgedRun, "confirm", lambda *_: 0))
                    nothing = patch.object(ConfirmedRun, "confirm", lambda *_: (0, False, None))
                    stack.enter_context(nothing)
                shop.do(*(pair[place] for pair in pairs))

    def post(self, number: int, x: int) -> tuple[Command, Command]:
        first, second = (shop.sending(number, {"x": x}) for shop in self.shops)
        return first, second

    def check(self) -> None:
        one, other = self.shops
        assert one.rig.facts == other.rig.facts
        assert one.delivered == other.delivered
        assert one.rig.breaths == other.rig.breaths
        batches = [
            [asked for asked in shop.rig.asked if isinstance(asked, Batch)] for shop in self.shops
        ]
        assert batches[0] == batches[1]
        pictures = (snapshot(shop.rig.shard, PASSED_OVER) for shop in self.shops)
        assert differences(*pictures) == []


@pytest.mark.parametrize("seed", range(40))
def test_runs_do_what_single_messages_do(seed: int) -> None:
    """BMQ-43, BMQ-44, BMQ-72, S003-10, S003-32: and note, count and tell the same."""
    draw = random.Random(seed)
    domain = draw.choice(DOMAINS)
    limits = replace(Limits(), turn_looks=draw.choice([5, 50, 10_000]), bodies_bytes=40)
    pair = Pair(domain, limits)
    posted = 0
    for _ in range(draw.choice([1, 1, 1, 2])):
        window = Window(draw.choice([1, 3, 10, 1000]), draw.choice([None, 60, 1 << 20]))
        pair.join(draw.choice(WANTS), window, draw.choice(domain.apps))
    for _ in range(25):
        commands: list[tuple[Command, Command]] = []
        for _ in range(draw.randint(1, 3)):
            dice = draw.random()
            if dice < 0.5:
                many = draw.choice([1, 4, 20])
                commands += [pair.post(posted + n + 1, draw.randint(0, 2)) for n in range(many)]
                posted += many
            elif posted:
                consumer = draw.choice(pair.consumers)
                numbers = draw.choices(range(max(1, posted - 40), posted + 2), k=15)
                first, second = (each.confirming(*numbers) for each in consumer)
                commands.append((first, second))
        if commands:
            pair.do(*commands)
        if draw.random() < 0.1:
            left = pair.consumers.pop(draw.randrange(len(pair.consumers)))
            for each in left:
                each.crash()
            pair.join(draw.choice(WANTS), Window(draw.choice([2, 100])), draw.choice(domain.apps))
    pair.check()


@pytest.mark.parametrize("seed", range(60))
def test_runs_of_readers_do_what_single_messages_do(seed: int) -> None:
    """BMQ-72, S003-10, S003-32: pulled, acknowledged by id, with a consumer beside it or not."""
    draw = random.Random(seed)
    domain = draw.choice(DOMAINS)
    limits = replace(Limits(), turn_looks=draw.choice([5, 50, 10_000]), bodies_bytes=40)
    limits = replace(limits, pull_bytes=draw.choice([30, 1 << 20]))
    pair = Pair(domain, limits)
    app = draw.choice(domain.apps)
    names = draw.choice([b"r", b"r", b"rs"])
    for name in names:
        pair.read(bytes([name]), draw.choice(WANTS), app)
    if draw.random() < 0.4:
        pair.join(draw.choice(WANTS), Window(draw.choice([1, 1000])), app)
    posted = 0
    for _ in range(25):
        commands: list[tuple[Command, Command]] = []
        for _ in range(draw.randint(1, 3)):
            dice = draw.random()
            reader = draw.choice(pair.readers)
            if dice < 0.4:
                many = draw.choice([1, 4, 20])
                commands += [pair.post(posted + n + 1, draw.randint(0, 2)) for n in range(many)]
                posted += many
            elif dice < 0.7:
                count, waits, confirms = draw.choice([None, 2, 10]), dice < 0.5, dice > 0.65
                claims = draw.choice([None, None, None, 0.0])
                one, other = (
                    each.pulling(count, waits=waits, confirms=confirms, claims=claims)
                    for each in reader
                )
                commands.append((one, other))
            else:
                known = [*(pair.ids[-30:] if posted else ()), StreamId(1, posted)]
                ids = sorted(draw.sample(known, min(len(known), 12)))
                first, second = (each.acknowledging(*ids) for each in reader)
                commands.append((first, second))
        pair.do(*commands)
        if draw.random() < 0.1:
            for each in pair.readers.pop():
                each.leave()
            pair.read(draw.choice([b"r", b"s"]), draw.choice(WANTS), app)
    pair.check()


def test_a_long_run_takes_breath_as_single_messages_do() -> None:
    pair = Pair(PRIORITY, Limits())
    pair.join(None, Window(5 * BREATH_WORK), PRIORITY.apps[0])
    many = 3 * BREATH_WORK
    pair.do(*(pair.post(number, 1) for number in range(1, many + 1)))
    (one, other) = pair.consumers[0]
    numbers = range(1, many + 1)
    pair.do((one.confirming(*numbers), other.confirming(*numbers)))
    pair.check()
    assert pair.shops[0].rig.breaths >= 3
    assert pair.shops[0].stored() == {}


def test_a_long_run_of_a_reader_takes_breath_as_single_messages_do() -> None:
    pair = Pair(PRIORITY, Limits())
    pair.read(b"r", None, PRIORITY.apps[0])
    [reader] = pair.readers
    many = 3 * BREATH_WORK
    pair.do(*(pair.post(number, 1) for number in range(1, many + 1)))
    pair.do((reader[0].pulling(many), reader[1].pulling(many)))
    pair.do((reader[0].acknowledging(*pair.ids), reader[1].acknowledging(*pair.ids)))
    pair.check()
    assert pair.shops[0].rig.breaths >= 6
    assert pair.shops[0].stored() == {}
