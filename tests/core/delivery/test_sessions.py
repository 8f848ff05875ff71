from __future__ import annotations

from headgate.core.delivery.back_pressure import BlockedPublishers
from headgate.core.delivery.mailbox import Budget, Mailbox
from headgate.core.delivery.sessions import Session
from headgate.core.model.ids import SessionId

ONE, TWO, THREE = SessionId(1), SessionId(2), SessionId(3)


def test_facts_call_a_session_by_its_address_and_its_name() -> None:
    session = Session(ONE, "resp", "alice", 0.0, Mailbox(ONE, Budget(1, 1, 1)))
    assert session.name == "alice"
    session.peer, session.called = "127.0.0.1:7", ""
    assert session.name == "127.0.0.1:7"
    session.called = "report-builder"
    assert session.name == "127.0.0.1:7 report-builder"


def test_who_waits_for_whom_can_be_asked_from_both_ends() -> None:
    waiting, budget = BlockedPublishers(), Budget(1, 1, 1)
    waiting.wait(ONE, THREE, budget)
    waiting.wait(TWO, THREE, budget)
    assert (waiting.blocker(ONE), waiting.blocker(THREE)) == (THREE, None)
    assert (waiting.held_up(THREE), waiting.held_up(ONE)) == (2, 0)
    assert list(waiting.blockers()) == [THREE]
    assert list(waiting.held_up_by(THREE)) == [ONE, TWO]
    waiting.forget(ONE)
    assert waiting.held_up(THREE) == 1
