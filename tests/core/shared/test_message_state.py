"""The table of states is closed, and says what holds of the places of an app."""

from __future__ import annotations

import pytest

from headgate.core.model.ids import WHOLE
from headgate.core.shared.message_state import (
    TRANSITIONS,
    MessageState,
    Move,
    reachable,
    states_of,
)
from tests.support.shared_queues import Q, Shop

S = MessageState


def test_every_state_has_its_row_and_every_move_its_use() -> None:
    assert set(TRANSITIONS) == set(MessageState)
    assert {move for moves in TRANSITIONS.values() for move in moves} == set(Move)


@pytest.mark.parametrize("state", [state for state in MessageState if state is not S.GONE])
def test_every_message_can_go(state: MessageState) -> None:
    """Nothing is stuck for ever: each state leads out of the app."""
    assert S.GONE in reachable(state)


def test_nothing_is_fresh_twice_and_what_is_gone_stays_gone() -> None:
    assert all(S.FRESH not in after for moves in TRANSITIONS.values() for after in moves.values())
    assert reachable(S.GONE) == {S.GONE}


def test_a_message_is_in_one_place_at_a_time() -> None:
    """BMQ-50, BMQ-54: as a message goes through its life."""
    shop = Shop()
    shop.post_many(1)
    app = shop.rig.shard.shared.queues[Q].apps[WHOLE]
    number = next(iter(app.fresh))
    seen = [states_of(app, number)]
    stranger = shop.consumer("x == 1")
    seen.append(states_of(app, number))
    taker = shop.consumer()
    seen.append(states_of(app, number))
    taker.crash()
    seen.append(states_of(app, number))
    again = shop.consumer()
    seen.append(states_of(app, number))
    again.confirm(1)
    seen.append(states_of(app, number))
    assert seen == [[S.FRESH], [S.ASIDE], [S.OUTSTANDING], [S.ASIDE], [S.OUTSTANDING], []]
    assert stranger.got() == []
