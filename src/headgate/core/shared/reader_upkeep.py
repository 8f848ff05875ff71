"""Upkeep of readers as time passes: they rest, lose their messages, and are removed."""

from __future__ import annotations

from headgate.core.facts import ReaderGone
from headgate.core.shared.claiming import Claiming
from headgate.core.shared.pulling import Pulling
from headgate.core.shared.reader import Reader
from headgate.core.turn.turn import Turn

REST_SECONDS = 60.0
"""Seconds without a pull after which a reader leaves the groups of its app until the next one:
messages do not wait for the priority or the expression of an absent reader."""

FORGET_SECONDS = 3600.0
"""Seconds after which a reader without sessions and messages is removed."""

READERS_MAX = 1000
"""Readers handled in one tick; the rest is the next tick's."""


class ReaderUpkeep:
    """Looks at readers with every tick.

    Owned by `SharedQueues`. Only readers without a pull, or without sessions, cost anything.
    """

    def __init__(self, pulling: Pulling, claiming: Claiming) -> None:
        self._pulling = pulling
        self._claiming = claiming
        self._readers = pulling.readers

    def tick(self, turn: Turn) -> None:
        self._rest(turn)
        self._desert(turn)
        self._pulling.tick(turn)

    def _rest(self, turn: Turn) -> None:
        due: list[Reader] = []
        for number, since in self._readers.idle.items():
            if turn.now - since < REST_SECONDS or len(due) >= READERS_MAX:
                break
            due.append(self._readers.by_number[number])
        for reader in due:
            for _ in self._pulling.ungroup(reader, turn):
                pass

    def _desert(self, turn: Turn) -> None:
        """Take back the messages of readers whose last session has been gone for long enough."""
        if not self._readers.deserted:
            return
        done = 0
        for number, since in list(self._readers.deserted.items()):
            reader = self._readers.by_number[number]
            grace = reader.queue.domain.consumer_grace
            gone = turn.now - since
            held = len(reader.gate.outstanding)
            if grace is not None and gone >= grace and (held or reader.is_grouped):
                for _ in self._claiming.dismiss(reader, lost=True, turn=turn):
                    pass
                if held:
                    turn.facts.append(
                        ReaderGone(turn.now, reader.queue.id, reader.app.id, number, held)
                    )
                done += 1
            elif gone >= FORGET_SECONDS and not held:
                for _ in self._pulling.ungroup(reader, turn):
                    pass
                self._pulling.forget(reader, turn)
                done += 1
            if done >= READERS_MAX:
                break
