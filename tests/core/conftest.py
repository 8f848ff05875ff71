"""Every turn of the tests of the core is refused once before it happens.

What a turn changes can be undone: a test that shows what a rule asks for shows by the way that the
rule holds, and nothing is left behind, when the store refuses the turn at first. Tests that count
what is done, and laws that let the store fail themselves, are marked `once`. Laws with drawn
examples take long enough without.

After each turn the running totals are compared with what they are totals of.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from unittest.mock import patch

import pytest

from headgate.core.commands import Command
from headgate.core.effects import Failed
from headgate.core.facts import TurnFailed
from headgate.core.turn.store_requests import Batch, Breath, Load, Step, TurnOutcome
from headgate.core.turn.turn import Turn
from headgate.errors import StoreError
from headgate.testing.picture import CACHES, differences, snapshot
from headgate.testing.rig import Rig, at_once
from tests.support.totals import assert_totals

PASSED_OVER = CACHES | {"remembered", "_since"}
"""Ids of the past are looked at by themselves; that something was asked for first, stays so."""

SESSIONS_MAX = 40
TURNS_MAX = 100
"""With more sessions than that, or after so many turns of a test, a picture of all that is held
takes too long."""


@pytest.fixture(autouse=True)
def refused_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    is_drawn = getattr(request.function, "is_hypothesis_test", False)
    if request.node.get_closest_marker("once") is None and not is_drawn:
        turns = count()

        def turn(rig: Rig, commands: list[Command]) -> TurnOutcome:
            return _turn(rig, commands, is_refused=next(turns) < TURNS_MAX)

        monkeypatch.setattr(Rig, "turn", turn)


def _turn(rig: Rig, commands: list[Command], *, is_refused: bool) -> TurnOutcome:
    outcome = None
    if is_refused and rig.fail_at is None and len(rig.shard.session_states) <= SESSIONS_MAX:
        before = _picture(rig)
        outcome = _refused(rig, rig.shard.turn(commands, rig.now))
        if outcome is None:
            assert differences(before, _picture(rig)) == []
    if outcome is None:
        outcome = rig.drive(rig.shard.turn(commands, rig.now))
    rig.facts += outcome.facts
    if len(rig.shard.session_states) <= SESSIONS_MAX:
        assert_totals(rig.shard)
    return outcome


def _picture(rig: Rig) -> tuple[object, ...]:
    """What is in memory. Caches may change, and ids whose time is over may go at any time."""
    remembered = tuple(
        (id, known, arrival)
        for id, queue in sorted(rig.shard.shared.queues.items())
        for known, arrival in queue.remembered.arrivals.items()
        if rig.now - arrival.at <= queue.domain.deduplication_time
    )
    return snapshot(rig.shard, PASSED_OVER), remembered


def _refused(rig: Rig, step: Step) -> TurnOutcome | None:
    """Take a turn up to its commit, which fails. One that has nothing to commit fails as well, as
    it would if it were taken together with others; unless it reads: then it happens."""
    loads: list[Load] = []
    breaths = 0

    def refuse(commands: Sequence[Command], turn: Turn) -> Sequence[None]:
        if turn.batch or not loads:
            raise StoreError("refused at first")
        return ()

    with patch.object(rig.shard, "_journal", refuse):
        try:
            asked: Load | Batch | Breath = next(step)
            while True:
                answer = None
                if isinstance(asked, Load):
                    loads.append(asked)
                    answer = at_once(rig.store.load(asked))
                else:
                    breaths += 1
                asked = step.send(answer)
        except StopIteration as done:
            outcome: TurnOutcome = done.value
    if not any(isinstance(fact, TurnFailed) for fact in outcome.facts):
        rig.asked += loads
        rig.breaths += breaths
        return outcome
    assert len(outcome.facts) == 1
    assert all(isinstance(e, Failed) and isinstance(e.error, StoreError) for e in outcome.effects)
    return None
