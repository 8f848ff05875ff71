"""The standings of a front's session at the shard: what has to be requested again if the worker
with the shard is restarted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TypeAlias

from headgate.core import commands as c
from headgate.core import effects as e
from headgate.core.model.ids import SessionId

Key: TypeAlias = tuple[object, ...]

SUBSCRIBED, WATCHED, OF_SERVICE, IDENTIFIED, OPENED, CONFIGURED = range(6)
LASTING = frozenset((SUBSCRIBED, WATCHED, OF_SERVICE))
"""Effects after which a client may be silent."""

_numbers: Callable[[], int] = count(1).__next__


class Standings:
    """The standings of one session, kept by the front that has its client.

    Each has a number: they are requested again in the order in which they were granted, so that of
    two sessions that had a queue one after the other the second gets it.
    """

    __slots__ = ("_found", "_session")

    def __init__(self, session: SessionId) -> None:
        self._session = session
        self._found: dict[Key, tuple[int, c.Command]] = {}

    @property
    def is_subscribed(self) -> bool:
        """Whether it subscribes to a queue, watches one, or belongs to a service."""
        return any(key[0] in LASTING for key in self._found)

    def commands(self) -> list[tuple[int, c.Command]]:
        """The commands to repeat, with their numbers."""
        return list(self._found.values())

    def answered(self, command: c.Command, effect: e.Effect) -> None:
        """Note the answer to a request of the session."""
        if isinstance(effect, e.Failed):
            return
        match command:
            case c.Subscribe():
                self._stand((SUBSCRIBED, command.queue), command)
            case c.Create() if command.subscribe:
                again = c.Subscribe(self._session, None, command.queue, command.service)
                self._stand((SUBSCRIBED, command.queue), again)
            case c.Delete():
                self._fall((SUBSCRIBED, command.queue))
            case c.Watch():
                self._stand((WATCHED, command.notifier), command)
            case c.SubscribeService():
                self._stand((OF_SERVICE,), replace(command, expected=None))
            case c.Identify():
                self._stand((IDENTIFIED,), command)
            case c.Open():
                self._stand((OPENED, command.queue, command.app), command)
            case c.Configure():
                self._stand((CONFIGURED, command.queue, command.app), command)
            case c.Close():
                self._fall((OPENED, command.queue, command.app))
                self._fall((CONFIGURED, command.queue, command.app))
            case _:
                pass

    def lost(self, effect: e.Effect) -> None:
        """Note an effect without a request: it may end a standing."""
        match effect:
            case e.End() | e.Deleted():
                self._fall((SUBSCRIBED, effect.queue))
            case e.WatchEnd() | e.WatchDeleted():
                self._fall((WATCHED, effect.notifier))
            case e.ServiceEnd():
                self._fall((OF_SERVICE,))
            case _:
                pass

    def _stand(self, key: Key, command: c.Command) -> None:
        bare = {"ref": None}
        if getattr(command, "proof", None) is not None:
            bare["proof"] = None  # its key was verified in this session
        self._found.pop(key, None)
        self._found[key] = _numbers(), replace(command, **bare)  # type: ignore[arg-type]

    def _fall(self, key: Key) -> None:
        self._found.pop(key, None)
