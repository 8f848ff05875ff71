"""Commands in line: what a turn takes, what is refused, and how long a failure delays the next."""

from __future__ import annotations

import pytest

from headgate.core.commands import Command, Send, Subscribe, Tick
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.turn.inbox import NEAR_COMMANDS, RETRY_SECONDS, Inbox
from headgate.core.turn.store_requests import TurnOutcome
from headgate.errors import LimitReached

ONE = SessionId(1)
Q = QueueId(b"q")


def send(number: int, body: bytes = b"0123456789") -> Send:
    return Send(ONE, number, Q, Message(MessageId(b"%d" % number), body, 0.0))


def made(commands: int = 0, *, is_near: bool = False, limits: Limits | None = None) -> Inbox:
    inbox = Inbox(limits or Limits(), is_near=is_near)
    inbox.insist([send(number) for number in range(commands)])
    return inbox


def taken(inbox: Inbox) -> list[int]:
    turns = []
    while len(inbox):
        turns.append(len(inbox.take()))
    return turns


@pytest.mark.parametrize(
    ("limits", "turns"),
    [
        (Limits(turn_commands=3), [3, 3, 1]),
        (Limits(turn_bytes=30), [3, 3, 1]),
        (Limits(turn_bytes=29), [2, 2, 2, 1]),
        (Limits(turn_bytes=9), [1] * 7),
        (Limits(turn_commands=100), [7]),
    ],
)
def test_a_turn_takes_what_its_limits_allow(limits: Limits, turns: list[int]) -> None:
    assert taken(made(7, limits=limits)) == turns


def test_a_turn_has_as_many_proofs_as_it_may() -> None:
    """What has nothing to prove is not counted."""
    inbox = made(limits=Limits(turn_proofs=2))
    proved: list[Command] = [Subscribe(ONE, n, Q, proof=lambda _: None) for n in range(5)]
    inbox.insist([Tick(), *proved, Tick()])
    assert taken(inbox) == [3, 2, 2]


def test_a_turn_is_small_where_the_store_is_near() -> None:
    assert taken(made(NEAR_COMMANDS + 1, is_near=True)) == [NEAR_COMMANDS, 1]
    assert taken(made(NEAR_COMMANDS + 1)) == [NEAR_COMMANDS + 1]


@pytest.mark.parametrize(
    ("name", "limits"),
    [("inbox_commands", Limits(inbox_commands=3)), ("inbox_bytes", Limits(inbox_bytes=30))],
)
def test_sessions_are_refused_all_or_nothing(name: str, limits: Limits) -> None:
    """At the limit and one above; what is first in line is never refused for its size."""
    inbox = made(limits=limits)
    inbox.submit([send(0), send(1), send(2), send(3)])
    assert inbox.take()
    inbox = made(limits=limits)
    inbox.submit([send(0)])
    inbox.submit([send(1), send(2)])
    with pytest.raises(LimitReached) as refused:
        inbox.submit([send(3)])
    assert refused.value.name == name
    assert len(inbox) == 3
    inbox.insist([send(4)])
    assert len(inbox) == 4


def test_room_comes_back_with_the_turn() -> None:
    inbox = made(3, limits=Limits(inbox_bytes=30, turn_commands=1))
    inbox.take()
    inbox.submit([send(3)])
    with pytest.raises(LimitReached):
        inbox.submit([send(4)])


def test_pauses_grow_with_failures_in_a_row() -> None:
    inbox = made()
    nothing = TurnOutcome([], [], [])
    pauses = [inbox.settle(nothing, has_failed=True) for _ in range(7)]
    assert pauses == [*RETRY_SECONDS, RETRY_SECONDS[-1], RETRY_SECONDS[-1]]
    assert inbox.settle(nothing, has_failed=False) == 0.0
    assert inbox.settle(nothing, has_failed=True) == RETRY_SECONDS[0]


def test_what_is_to_be_done_again_goes_to_the_end() -> None:
    inbox = made(1)
    inbox.settle(TurnOutcome([], [], [Tick()]), has_failed=False)
    assert [type(command) for command in inbox.take()] == [Send, Tick]
