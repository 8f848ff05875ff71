"""The subscription of a service: each row of its table."""

from __future__ import annotations

import pytest

from headgate.agent.engine.services import ServiceState, ServiceSubscription
from headgate.agent.events import Mismatch
from headgate.core.model.ids import QueueId, ServiceId
from headgate.core.model.tally import NOTHING, Tally

OURS = ServiceId(b"ours")
A, B = QueueId(b"a"), QueueId(b"b")
TWO = Tally.of([A, B])


def asked(expected: Tally = TWO) -> ServiceSubscription:
    some = ServiceSubscription()
    some.open(OURS, is_wanted=True)
    assert some.state is ServiceState.PENDING
    some.state = ServiceState.ASKED
    some.expect(expected)
    return some


def active() -> ServiceSubscription:
    some = asked()
    some.confirm(OURS, TWO)
    return some


def test_what_is_expected_is_noted_before_the_subscribe() -> None:
    """S001-68."""
    some = asked()
    assert some.expected == TWO
    assert some.state is ServiceState.ASKED


def test_nothing_associated_is_nothing_to_subscribe() -> None:
    some = ServiceSubscription()
    some.open(OURS, is_wanted=True)
    assert not some.expect(NOTHING)
    assert some.is_active
    assert some.lose() is None


def test_the_routers_tally_is_what_is_active() -> None:
    """S001-69."""
    some = asked()
    confirmation = some.confirm(OURS, TWO)
    assert some.is_active
    assert some.tally == TWO
    assert confirmation.drift is None
    assert not confirmation.lost_all


@pytest.mark.parametrize(
    ("has", "drift", "lost_all"),
    [
        (Tally.of([A]), Mismatch.FEWER, False),
        (TWO.plus(QueueId(b"c")), Mismatch.MORE, False),
        (Tally.of([A, QueueId(b"c")]), Mismatch.DIFFERENT, False),
        (NOTHING, Mismatch.FEWER, True),
    ],
)
def test_any_difference_is_known(has: Tally, drift: Mismatch, lost_all: bool) -> None:
    """S001-73, S004-23."""
    confirmation = asked().confirm(OURS, has)
    assert (confirmation.drift, confirmation.lost_all) == (drift, lost_all)


def test_an_answer_for_another_service_is_worth_nothing() -> None:
    """S001-82."""
    some = asked()
    confirmation = some.confirm(ServiceId(b"other"), TWO)
    assert (confirmation.drift, confirmation.lost_all) == (Mismatch.SERVICE, True)
    assert some.tally == NOTHING


def test_queues_that_are_confirmed_for_themselves_are_added() -> None:
    """S001-70."""
    some = active()
    some.add(QueueId(b"c"))
    assert some.tally == Tally.of([A, B, QueueId(b"c")])
    some.remove(A)
    assert some.tally.count == 2


def test_a_loss_makes_an_active_service_pending() -> None:
    """S001-71, S001-74."""
    some = active()
    assert some.lose() == TWO
    assert some.state is ServiceState.PENDING
    assert some.tally == NOTHING
    assert some.lose() is None


def test_queues_confirmed_while_the_service_failed_go_down_with_it() -> None:
    some = asked()
    some.postpone()
    some.add(A)
    assert some.lose() == Tally.of([A])


def test_a_service_that_ended_is_neither_active_nor_pending() -> None:
    """S001-72."""
    some = active()
    assert some.end(until=300.0) == TWO
    assert not some.is_active
    assert not some.is_wanted
    some.wake(299.0)
    assert not some.is_ahead
    some.wake(300.0)
    assert some.is_ahead


def test_a_service_that_ended_is_left_alone_over_a_reconnect_unless_somebody_asks() -> None:
    some = active()
    some.end(until=300.0)
    assert some.lose() is None
    some.open(OURS, is_wanted=True)
    assert not some.is_ahead
    some.ask_again()
    assert some.is_ahead


def test_a_session_without_a_service_has_none() -> None:
    some = active()
    some.lose()
    some.open(None, is_wanted=True)
    assert some.state is ServiceState.NONE
    some.want()
    assert some.state is ServiceState.NONE


def test_a_service_that_nobody_wants_waits_until_somebody_does() -> None:
    some = ServiceSubscription()
    some.open(OURS, is_wanted=False)
    assert not some.is_wanted
    some.want()
    assert some.state is ServiceState.PENDING


def test_single_queues_wait_for_the_service_but_not_for_its_next_round() -> None:
    """S001-81."""
    some = asked()
    assert some.is_ahead
    some.postpone()
    assert not some.is_ahead
    some.begin_round()
    assert some.is_ahead
