"""A message of a shared queue is in one place of an app, and moves as the table says."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from headgate.core.facts import GroupDropped, Skipped
from headgate.core.model.ids import AppId, QueueId, Seq
from headgate.core.shared.message_state import MessageState, reachable, states_of
from headgate.testing.checkers.base import Checker

if TYPE_CHECKING:
    from headgate.testing.simulated_router import Taken
    from headgate.testing.world import World

Key: TypeAlias = tuple[QueueId, AppId, Seq]

REACHABLE = {state: reachable(state) for state in MessageState}


class MessageStates(Checker):
    """The law of states: it looks at every message of every app after a turn. One that was there
    before is in a state that its last one leads to; one that came is in any that leads from
    `FRESH`."""

    name = "states"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._before: dict[Key, MessageState] = {}

    def crashed(self, *_: object) -> None:
        """The next router begins with everything in line."""
        self._before = {}

    def turn(self, taken: Taken) -> None:
        now: dict[Key, MessageState] = {}
        for queue in taken.router.broker.shard.shared.queues.values():
            for entry in queue.entries.values():
                for app in entry.apps:
                    found = states_of(queue.apps[app], entry.seq)
                    if len(found) != 1:
                        self.fail(f"{entry.id!r} of {queue.id!r} is in {found} of {app!r}")
                    now[queue.id, app, entry.seq] = found[0]
        facts = taken.outcome.facts
        anew = {(x.queue, x.app) for x in facts if isinstance(x, GroupDropped | Skipped)}
        for key, state in now.items():
            if key[:2] in anew:
                continue  # it was done with it, and gets it once more
            before = self._before.get(key, MessageState.FRESH)
            if state not in REACHABLE[before]:
                self.fail(f"message {key[2]} of {key[0]!r} went from {before} to {state}")
        self._before = now
