"""Routers that are broken on purpose, each in one way that a simulator must notice."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any

import pytest

from headgate.core.delivery.gate import Gate
from headgate.core.delivery.sessions import Sessions
from headgate.core.effects import End
from headgate.core.exclusive.delivery import ExclusiveDelivery
from headgate.core.exclusive.holders import Holders
from headgate.core.exclusive.queue_cache import CachedQueue
from headgate.core.facts import Displaced, Subscribed
from headgate.core.model.ids import WHOLE, QueueId, Ref, SessionId
from headgate.core.turn.session_state import SessionState
from headgate.core.turn.store_requests import Batch, Load, TurnOutcome
from headgate.core.turn.turn import Turn
from headgate.testing.simulated_router import Router, Taken

Settings = dict[str, Any]
Variant = Callable[[pytest.MonkeyPatch], Settings]
"""Breaks something; returns what a world needs to have it."""


def no_end(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The displaced is not told."""

    def _end(self: Holders, holder: SessionId, queue: QueueId, by: SessionId, turn: Turn) -> None:
        self.release(holder, queue, turn)

    monkeypatch.setattr(Holders, "_end", _end)
    return {}


def no_displacement(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The displaced is told, and goes on receiving."""
    register = Holders.register

    def register_beside(
        self: Holders,
        session: SessionId,
        state: SessionState,
        cached: CachedQueue,
        turn: Turn,
    ) -> None:
        queue = cached.record.queue
        holder = next(iter(self.subscribers.roster(queue)), session)
        if holder == session:
            register(self, session, state, cached, turn)
            return
        turn.effects.append(End(holder, queue))
        turn.facts.append(Displaced(turn.now, queue, holder, session))
        turn.facts.append(Subscribed(turn.now, queue, WHOLE, session))

    monkeypatch.setattr(Holders, "register", register_beside)
    return {}


def no_window(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Gates are always open, unless the mailbox is full."""
    monkeypatch.setattr(Gate, "is_open", property(lambda gate: not gate.held))
    return {}


def no_window_of_one(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A head is offered whether or not it is in flight."""
    offer = ExclusiveDelivery.offer

    def heedless(
        self: ExclusiveDelivery,
        session: SessionId,
        state: SessionState,
        cached: CachedQueue,
        turn: Turn,
        ref: Ref | None = None,
    ) -> bool:
        turn.undo.pop(state.gates, cached.record.queue)
        return offer(self, session, state, cached, turn, ref)

    monkeypatch.setattr(ExclusiveDelivery, "offer", heedless)
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
                taken.outcome = TurnOutcome(list(turn.effects), list(turn.facts), [])
                self.release(taken)
            super().asks(taken, asked)

    return {"drive": Hasty}
