"""Worlds with a journal: each fact once, whoever dies; and a sealer that goes too far."""

from __future__ import annotations

import pytest

from headgate.core.broker import Broker
from headgate.core.turn.outbox import OutboxRow
from headgate.testing.actors import Operator, Ticker
from headgate.testing.sealing import SealingActor
from headgate.testing.trace import Violation
from headgate.testing.world import World

STEPS = 400


def play(seed: int, actor: SealingActor, steps: int = STEPS) -> World:
    world = World(seed, actors=[Ticker(), Operator(), actor], build=actor.build)
    world.run(steps)
    world.finish()
    return world


@pytest.mark.parametrize("chunk", range(6))
def test_every_committed_fact_is_in_the_journal_once(chunk: int) -> None:
    sealed = 0
    for seed in range(chunk * 10, chunk * 10 + 10):
        actor = SealingActor()
        play(seed, actor)
        sealed += len(actor.sealed)
    assert sealed > 100, "the worlds were too quiet to say anything"


def play_many(kind: type[SealingActor]) -> None:
    for seed in range(60):
        play(seed, kind())


class TooFar(SealingActor):
    """Seals beyond the watermark: up to the last number given, committed or not."""

    def watermark(self, broker: Broker) -> int:
        return broker.shard.outbox.last

    def name(self, rows: list[OutboxRow], watermark: int) -> int:
        return watermark


def test_a_sealer_that_goes_beyond_the_watermark_is_caught() -> None:
    with pytest.raises(Violation) as caught:
        play_many(TooFar)
    assert caught.value.checker == "journal"


def test_a_session_that_is_answered_and_gone_in_one_turn_wants_nothing_afterwards() -> None:
    """Seed 4903 of 20,000: the checker of windows remembered what it had wanted."""
    play(4903, SealingActor(), steps=600)
