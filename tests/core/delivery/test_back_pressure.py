"""Publishers that wait for who is stuck, and who is woken when."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from headgate.core.delivery.back_pressure import BlockedPublishers
from headgate.core.delivery.mailbox import Budget, Mailbox
from headgate.core.model.ids import SessionId

PUBLISHER, OTHER = SessionId(1), SessionId(2)
SLOW, EASY = SessionId(7), SessionId(8)


def budget_of(limit: int = 1000) -> Budget:
    return Budget(limit, mailbox_soft=10, mailbox_hard=20)


def mailbox(budget: Budget, session: SessionId) -> Mailbox:
    return Mailbox(session, budget)


def test_every_waiter_that_may_go_on_is_woken_and_nobody_else() -> None:
    """S002-62, S002-63: who waits is told when its blocker no longer blocks."""
    budget = budget_of()
    slow, another = mailbox(budget, SLOW), mailbox(budget, EASY)
    slow.offer("m", 21, now=0.0)
    another.offer("m", 21, now=0.0)
    waiting = BlockedPublishers()
    for publisher in (PUBLISHER, OTHER):
        waiting.wait(publisher, SLOW, budget)
    waiting.wait(SessionId(3), EASY, budget)
    assert waiting.wake(budget) == waiting.wake(budget, SLOW) == []
    slow.take(0.0)
    assert waiting.wake(budget, SLOW) == [PUBLISHER, OTHER]
    assert list(waiting) == [(SessionId(3), EASY)]


def test_a_blocker_that_is_gone_keeps_nobody_waiting() -> None:
    budget = budget_of()
    slow = mailbox(budget, SLOW)
    slow.offer("m", 21, now=0.0)
    waiting = BlockedPublishers()
    waiting.wait(PUBLISHER, SLOW, budget)
    waiting.wait(OTHER, SLOW, budget)
    waiting.forget(OTHER)
    assert slow.close() == 1
    assert waiting.wake(budget, SLOW) == [PUBLISHER]
    assert len(waiting) == 0


# Laws: some sessions of whatever wires, and publishers that write to them.

LISTENERS = [SessionId(n) for n in range(4)]


class Step(NamedTuple):
    """Offer so many bytes to a listener, or have it take some, lose some or go; then a publisher
    wants to write to it."""

    act: str
    listener: SessionId
    size: int


acts = st.sampled_from(
    ["offer", "offer", "offer", "publish", "publish", "take", "some", "drop", "go"]
)
histories = st.lists(
    st.builds(Step, acts, st.sampled_from(LISTENERS), st.integers(1, 25)), max_size=80
)


@given(histories, st.integers(10, 60))
@example(  # the budget is spent when the wait begins, and is not when another is relieved
    [
        Step("offer", LISTENERS[0], 15),
        Step("offer", LISTENERS[1], 25),
        Step("publish", LISTENERS[0], 1),
        Step("go", LISTENERS[1], 1),
    ],
    20,
)
@example(  # the same, while somebody waits already for one that is over its hard limit
    [
        Step("offer", LISTENERS[2], 25),
        Step("publish", LISTENERS[2], 1),
        Step("offer", LISTENERS[0], 15),
        Step("offer", LISTENERS[1], 25),
        Step("publish", LISTENERS[0], 1),
        Step("go", LISTENERS[1], 1),
    ],
    60,
)
@example(  # one over its hard limit goes below it while the budget is spent, which then ends
    [
        Step("offer", LISTENERS[0], 25),
        Step("publish", LISTENERS[0], 1),
        Step("offer", LISTENERS[1], 25),
        Step("offer", LISTENERS[1], 5),
        Step("some", LISTENERS[0], 10),
        Step("take", LISTENERS[1], 1),
    ],
    40,
)
def test_a_publisher_waits_if_and_only_if_the_session_it_waits_for_blocks(
    history: list[Step], limit: int
) -> None:
    """S002-62, S002-63: whichever session it was whose bytes left, and in whatever order. Only the
    session that something left is named to those who wait, as the shells do it."""
    budget, waiting = budget_of(limit), BlockedPublishers()
    boxes = {listener: mailbox(budget, listener) for listener in LISTENERS}
    asleep: dict[SessionId, SessionId] = {}
    publishers = (SessionId(n) for n in range(100, 1000))
    for act, listener, size in history:
        box = boxes[listener]
        if act == "offer":
            box.offer("m", size, now=0.0)
        elif act == "publish" and budget.is_blocking(listener):
            publisher = next(publishers)
            waiting.wait(publisher, listener, budget)
            asleep[publisher] = listener
        elif act == "take":
            box.take(0.0)
        elif act == "some" and len(box):
            left = max(0, box._line[0][1] - size)
            box.shorten("rest", left, now=0.0)
        elif act == "drop":
            box.drop_oldest(size)
        elif act == "go":
            box.close()
        if act in ("take", "some", "drop", "go"):
            for publisher in waiting.wake(budget, listener):
                del asleep[publisher]
        assert dict(waiting) == asleep
        if act not in ("offer", "publish"):
            assert all(budget.is_blocking(blocker) for blocker in asleep.values())
    assert waiting.wake(budget) == []


def test_one_that_is_relieved_is_looked_at_alone_unless_there_is_more_for_everybody() -> None:
    """S002-62: however many others are waited for."""
    budget = budget_of(10**6)
    for n in range(1000):
        mailbox(budget, SessionId(n)).offer("m", 21, now=0.0)
    looks: list[SessionId] = []

    class Counting(Budget):
        def is_blocking(self, session: SessionId) -> bool:
            looks.append(session)
            return super().is_blocking(session)

    counting = Counting(10**6, 10, 20, budget)
    waiting = BlockedPublishers()
    for n in range(1000):
        waiting.wait(SessionId(1000 + n), SessionId(n), counting)
    budget.stuck[SessionId(7)].shorten("m", 20, now=0.0)
    assert waiting.wake(counting, SessionId(7)) == [1007]
    assert looks == [7]
