"""Agents that are broken on purpose, each in one way that a world must notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from headgate.agent import shell, stored_effects
from headgate.agent.engine.announcements import Announcements
from headgate.agent.engine.effects import Effect, SetAssociated
from headgate.agent.engine.engine import Engine
from headgate.agent.model import ConnectionId, QueueKey, SessionKey
from headgate.agent.receiving import Receiving
from headgate.agent.record_line import RecordLine
from headgate.agent.records import outgoing, services
from headgate.agent.records.database import Database
from headgate.agent.records.outgoing import DeliveryRecord
from headgate.agent.send_work import Work
from headgate.agent.sending import Sending
from headgate.errors import HeadgateError

Variant = Callable[[pytest.MonkeyPatch], None]


def no_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine demotes connections with the session that is lost, and does not announce it."""
    release = Announcements.release

    def release_silently(
        self: Announcements, connections: Iterable[ConnectionId]
    ) -> tuple[ConnectionId, ...]:
        release(self, connections)
        return ()

    monkeypatch.setattr(Announcements, "release", release_silently)


def no_second_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine does not go on after a pause."""

    def tick(self: Engine, now: float) -> list[Effect]:
        return []

    monkeypatch.setattr(Engine, "tick", tick)


def losses_pass_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine takes the end of a session for one of a session that was replaced."""

    def lost(self: Engine, session: SessionKey, now: float) -> list[Effect]:
        return []

    monkeypatch.setattr(Engine, "lost", lost)


def tallies_without_what_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records add queues to a tally, and take none away."""
    add = services._add

    def add_only(tables: Database, user: int, router: int, joined: Any, left: Any) -> None:  # noqa: ANN401
        add(tables, user, router, joined, ())

    monkeypatch.setattr(services, "_add", add_only)


def associations_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell forgets one kind of effect."""
    store = stored_effects.store

    def store_others(line: RecordLine[Database], effect: Effect) -> bool:
        return isinstance(effect, SetAssociated) or store(line, effect)

    monkeypatch.setattr(shell, "store", store_others)


def acknowledged_without_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The router is asked to forget a message, and the records do not know."""

    async def acknowledge(self: Receiving, id: int, receipt: bool = False) -> None:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        self._marked(id, done, receipt)

    monkeypatch.setattr(Receiving, "acknowledge", acknowledge)


def removed_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message leaves the records when the router is asked, not when it has answered."""
    deliver = Sending._deliver

    async def deliver_hastily(self: Sending, work: Work) -> HeadgateError | None:
        assert work.delivery is not None
        await self._records.write(outgoing.sent, work.delivery.number)
        return await deliver(self, work)

    monkeypatch.setattr(Sending, "_deliver", deliver_hastily)


def last_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the messages that wait for a queue the last is sent first."""
    waiting = outgoing.waiting

    def backwards(tables: Database, queue: QueueKey, limit: int = 100) -> list[DeliveryRecord]:
        return list(reversed(waiting(tables, queue, limit=100)))[:limit]

    monkeypatch.setattr(outgoing, "waiting", backwards)
