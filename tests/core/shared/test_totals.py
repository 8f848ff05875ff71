"""Running totals in worlds where the store fails and clients come and go. The tests of the core
compare them after every turn of theirs, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.core.shard import Shard
from headgate.core.turn.turn import Turn
from headgate.testing.world import World
from tests.support.totals import assert_totals


@pytest.mark.parametrize("seed", [3, 41])
def test_totals_are_true_after_every_turn_of_a_world(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Shard._settle
    turns = 0
    wrong: list[AssertionError] = []  # a turn that was committed fails nobody

    def settled(shard: Shard, turn: Turn) -> Iterator[None]:
        nonlocal turns
        yield from settle(shard, turn)
        turns += 1
        try:
            assert_totals(shard)
        except AssertionError as error:
            wrong.append(error)

    monkeypatch.setattr(Shard, "_settle", settled)
    World(seed).run(600)
    assert wrong == []
    assert turns > 20
