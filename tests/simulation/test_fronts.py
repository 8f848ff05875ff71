"""Worlds of fronts: whatever is held, ends or is killed, one acts, nothing is stuck or lost, and no
attempt is counted. Without one of the rules that see to it, it is not so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from headgate.core.commands import Command
from headgate.core.delivery.remote_mailbox import RemoteMailbox
from headgate.core.model.domain import Domain
from headgate.core.model.ids import SessionId
from headgate.server.workers import remote_router
from headgate.server.workers.front_sessions import FrontSessions
from headgate.server.workers.membership import WorkerRouter
from headgate.server.workers.remote_router import RemoteRouter
from headgate.server.workers.standings import Standings
from tests.simulation.front_worlds import Broken, FencedStore, FrontWorld, play_all

SEEDS = 300
CHUNK = 30
CAUGHT_WITHIN = 100


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_is_lost_stuck_or_counted(first: int) -> None:
    worlds = play_all(FrontWorld, range(first, first + CHUNK))
    assert sum(world.homes for world in worlds) > 2 * CHUNK, "worker 0 is started again"
    assert sum(world.deaths for world in worlds) > CHUNK, "and so are fronts"
    assert sum(world.deliveries - len(world.accepted) for world in worlds) > CHUNK, (
        "some come again"
    )


def test_a_world_ends_when_all_that_sessions_had_was_asked_for_again() -> None:
    """Its clients have finished before worker 0 was linked for the last time."""
    [world] = play_all(FrontWorld, [13694])
    assert world.homes == 5


def test_a_seed_always_gives_the_same_world() -> None:
    [first], [second] = play_all(FrontWorld, [7]), play_all(FrontWorld, [7])
    assert (first.clock.steps, first.accepted) == (second.clock.steps, second.accepted)


Variant = Callable[[pytest.MonkeyPatch], None]


def no_fencing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was replaced writes to the store."""
    monkeypatch.setattr(FencedStore, "is_fenced", False)


def attempts_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sessions of a front that is gone are taken for lost."""

    def close(self: FrontSessions) -> None:
        for session in list(self._mailboxes):
            self._release(session, lost=True)

    monkeypatch.setattr(FrontSessions, "close", close)


def without_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way to a client is not counted."""
    monkeypatch.setattr(RemoteMailbox, "sent", lambda self, size, now: None)


def without_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sessions had is not asked for again."""

    def commands(self: Standings) -> list[tuple[int, Command]]:
        return []

    monkeypatch.setattr(Standings, "commands", commands)


def not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was not answered is forgotten, and its client is not told."""
    monkeypatch.setattr(remote_router, "RESENT", frozenset(("smp",)))
    made = RemoteRouter.__init__

    def deaf(
        self: RemoteRouter,
        local: WorkerRouter,
        domains: Mapping[str, Domain],
        workers: int,
        end: Callable[[SessionId, str], None],
    ) -> None:
        made(self, local, domains, workers, lambda session, reason: None)

    monkeypatch.setattr(RemoteRouter, "__init__", deaf)


@pytest.mark.parametrize(
    ("variant", "law"),
    [
        (no_fencing, "not the owner any more wrote"),
        (attempts_counted, "an attempt was counted"),
        (without_credit, "are under way to one client"),
        (without_replay, "something is stuck"),
        (not_sent_again, "something is stuck"),
    ],
)
def test_a_rule_that_is_left_out_is_missed(
    variant: Variant, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant(monkeypatch)
    with pytest.raises(Broken, match=law):
        play_all(FrontWorld, range(CAUGHT_WITHIN))
