"""Notification servers that are broken on purpose, each in one way that a world must notice."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headgate.agent.engine.effects import Effect
from headgate.agent.engine.engine import Engine
from headgate.agent.engine.services import ServiceState, ServiceSubscription
from headgate.agent.model import SessionKey
from headgate.core.model.tally import Tally
from headgate.errors import StoreError
from headgate.notify.outcomes import Failed, PushOutcome
from headgate.notify.tokens import Token
from headgate.ntf_server.pushing.pusher import MadePush, Pusher
from headgate.ntf_server.pushing.queue import ProviderQueue
from headgate.ntf_server.pushing.turns import Turn
from headgate.ntf_server.records import notices, subscriptions, tokens
from headgate.ntf_server.records.subscriptions import RemovedSubscription
from headgate.ntf_server.routers.intake import NoticeIntake
from headgate.ntf_server.routers.shell import NotifierShell
from headgate.wire.ntf.devices import Provider
from headgate.wire.ntf.statuses import TokenStatus


def notices_go_with_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk refused is not tried again."""

    async def store(self: NoticeIntake) -> None:
        while self._waiting:
            (router, _), notice = self._waiting.popitem()
            try:
                [kept] = await self._records.write(notices.keep, router, [notice])
            except StoreError:
                continue
            if kept.token is not None:
                self._push(kept.token)
        self._is_storing = False

    monkeypatch.setattr(NoticeIntake, "_store", store)


def tallies_change_outside_of_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription changes, and the tally of its router does not change with it."""
    monkeypatch.setattr(subscriptions, "_retally", lambda tables, router, changes: None)


def losses_pass_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is subscribed again after a session was lost."""

    def lost(self: Engine, session: SessionKey, now: float) -> list[Effect]:
        return []

    monkeypatch.setattr(Engine, "lost", lost)


def the_dead_are_pushed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages go to devices that the provider took for dead."""

    def takes_messages(self: Token) -> bool:
        return self.status in (TokenStatus.ACTIVE, TokenStatus.INVALID)

    monkeypatch.setattr(Token, "takes_messages", property(takes_messages))


def ends_is_answered_with_a_fight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that another server took is taken back at once."""
    end = ServiceSubscription.end

    def end_and_want(self: ServiceSubscription, until: float) -> Tally:
        had = end(self, 0.0)
        self.state = ServiceState.PENDING
        return had

    monkeypatch.setattr(ServiceSubscription, "end", end_and_want)


def removals_are_kept_from_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was removed and is wanted again seems to be there."""

    def forget(self: NotifierShell, removed: Iterable[RemovedSubscription]) -> None:
        pass

    monkeypatch.setattr(NotifierShell, "forget", forget)


def kept_notices_wait_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not pushed before a restart is not pushed after it."""

    def start(self: Pusher) -> None:
        pass

    monkeypatch.setattr(Pusher, "start", start)


def failures_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push that failed leaves no trace."""
    keep = Pusher._keep

    async def keep_others(
        self: Pusher, provider: Provider, turn: Turn, made: MadePush, outcome: PushOutcome
    ) -> None:
        if not isinstance(outcome, Failed):
            await keep(self, provider, turn, made, outcome)

    monkeypatch.setattr(Pusher, "_keep", keep_others)


def tokens_wait_for_each_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that waits already waits again."""

    def add(self: ProviderQueue, token: bytes) -> bool:
        return self._notices.add(token, self._loop.time())

    monkeypatch.setattr(ProviderQueue, "_add_notices", add)


def statuses_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is answered for as verified, and the records know nothing of it."""
    text = tokens.PUT.replace("status = excluded.status, ", "")
    assert text != tokens.PUT
    monkeypatch.setattr(tokens, "PUT", text)
