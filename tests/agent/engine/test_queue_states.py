"""A queue is in one place at a time."""

from __future__ import annotations

from headgate.agent.engine.queue_states import PendingQueues, QueueState, QueueStates


def pending(*queues: bytes) -> PendingQueues:
    found = PendingQueues()
    for queue in queues:
        found.waiting[queue] = b"of " + queue
    return found


def states(*queues: bytes) -> QueueStates:
    found = QueueStates()
    for queue in queues:
        found.want(queue, b"of " + queue, is_flagged=False)
    return found


def test_in_a_round_each_queue_is_sent_once() -> None:
    """S000-86."""
    some = pending(b"a", b"b", b"c")
    assert some.take(2) == (b"a", b"b")
    assert some.postpone(b"a") == b"of a"
    assert some.take(2) == (b"c",)
    assert some.take(2) == ()
    assert len(some) == 3
    some.begin_round()
    assert some.take(2) == (b"a",)


def test_a_late_failure_does_not_hold_up_what_is_to_be_sent() -> None:
    some = pending(b"a")
    assert some.postpone(b"a") == b"of a"
    assert some.take(1) == (b"a",)


def test_after_a_loss_everything_is_sent_again_in_its_order() -> None:
    some = pending(b"a", b"b", b"c")
    some.take(1)
    some.reset()
    assert list(some.waiting) == [b"a", b"b", b"c"]
    assert [queue for queue, _ in some.items()] == [b"a", b"b", b"c"]


def test_only_what_is_pending_becomes_active() -> None:
    """S000-89."""
    some = states(b"a")
    assert some.activate(b"a") == b"of a"
    assert some.activate(b"a") is None
    assert some.activate(b"other") is None
    assert some.state_of(b"a") is QueueState.ACTIVE


def test_what_counts_for_the_service_is_not_active() -> None:
    """S001-64."""
    some = states(b"a")
    assert some.count(b"a") == b"of a"
    assert some.active == {}
    assert some.state_of(b"a") is QueueState.COUNTED


def test_a_loss_makes_pending_what_was_active_and_leaves_the_rest_to_the_service() -> None:
    """S000-81."""
    some = states(b"a", b"b", b"c")
    some.activate(b"a")
    some.count(b"b")
    some.locked.add(b"d")
    some.demote(counted_too=False)
    assert list(some.pending.waiting) == [b"a", b"c"]
    assert some.state_of(b"b") is QueueState.UNKNOWN
    assert some.state_of(b"d") is QueueState.UNKNOWN, "a GET ends with its session"


def test_a_service_that_ended_does_not_speak_for_its_queues() -> None:
    some = states(b"a", b"b")
    some.count(b"b")
    some.demote(counted_too=True)
    assert set(some.pending.waiting) == {b"a", b"b"}
    assert some.flagged == {b"b"}


def test_an_active_service_covers_what_belongs_to_it() -> None:
    some = states(b"a")
    some.want(b"b", b"of b", is_flagged=True)
    assert some.cover() == [(b"b", b"of b")]
    assert list(some.pending.waiting) == [b"a"]
    assert some.flagged == set()


def test_what_is_forgotten_is_nowhere() -> None:
    some = states(b"a")
    some.checks.waiting[b"b"] = b"of b"
    assert some.state_of(b"b") is QueueState.COUNTED
    for queue in (b"a", b"b"):
        some.discard(queue)
        assert some.state_of(queue) is QueueState.UNKNOWN
    assert some.is_empty
