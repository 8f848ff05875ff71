"""Routers that are broken on purpose, each in one way that a simulator must notice."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any

import pytest

from headgate.core.backlogs import Backlog
from headgate.core.effects import End
from headgate.core.facts import Displaced, Subscribed
from headgate.core.gate import Gate
from headgate.core.names import WHOLE, QueueId, Ref, SessionId
from headgate.core.queues import Queues
from headgate.core.seats import Seat
from headgate.core.sessions import Sessions
from headgate.core.steps import Batch, Load, Outcome
from headgate.core.turn import Turn
from headgate.testing.world import Router, Taken

Settings = dict[str, Any]
Variant = Callable[[pytest.MonkeyPatch], Settings]
"""Breaks something; returns what a world needs to have it."""


def no_end(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The displaced is not told."""

    def _end(self: Queues, holder: SessionId, queue: QueueId, by: SessionId, turn: Turn) -> None:
        self._release(holder, queue, turn)

    monkeypatch.setattr(Queues, "_end", _end)
    return {}


def no_displacement(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The displaced is told, and goes on receiving."""
    register = Queues._register

    def _register(
        self: Queues, session: SessionId, seat: Seat, backlog: Backlog, turn: Turn
    ) -> None:
        queue = backlog.record.queue
        holder = next(iter(self.subscribers.roster(queue)), session)
        if holder == session:
            register(self, session, seat, backlog, turn)
            return
        turn.effects.append(End(holder, queue))
        turn.facts.append(Displaced(turn.now, queue, holder, session))
        turn.facts.append(Subscribed(turn.now, queue, WHOLE, session))

    monkeypatch.setattr(Queues, "_register", _register)
    return {}


def no_window(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Gates are always open, unless the mailbox is full."""
    monkeypatch.setattr(Gate, "is_open", property(lambda gate: not gate.held))
    return {}


def no_window_of_one(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A head is offered whether or not it is in flight."""
    offer = Queues.offer

    def heedless(
        self: Queues,
        session: SessionId,
        seat: Seat,
        backlog: Backlog,
        turn: Turn,
        ref: Ref | None = None,
    ) -> bool:
        turn.undo.pop(seat.gates, backlog.record.queue)
        return offer(self, session, seat, backlog, turn, ref)

    monkeypatch.setattr(Queues, "offer", heedless)
    return {}


def two_turns_at_once(monkeypatch: pytest.MonkeyPatch) -> Settings:
    class Hurried(Router):
        turns_at_once = 2

    return {"drive": Hurried}


def session_ids_reused(monkeypatch: pytest.MonkeyPatch) -> Settings:
    def next_id(self: Sessions) -> SessionId:
        return next(SessionId(n) for n in range(1, 1 << 20) if n not in self)

    monkeypatch.setattr(Sessions, "next_id", next_id)
    return {}


def effects_before_commit(monkeypatch: pytest.MonkeyPatch) -> Settings:
    class Hasty(Router):
        """Tells everybody what the turn has decided when it asks for the commit."""

        def asks(self, taken: Taken, asked: Load | Batch) -> None:
            if isinstance(asked, Batch):
                assert isinstance(taken.step, GeneratorType)
                frame = taken.step.gi_frame
                assert frame is not None
                turn = frame.f_locals["turn"]
                taken.outcome = Outcome(list(turn.effects), list(turn.facts), [])
                self.release(taken)
            super().asks(taken, asked)

    return {"drive": Hasty}
