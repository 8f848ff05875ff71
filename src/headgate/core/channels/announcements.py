"""Announcements of subscriptions to the other workers, and the sessions that wait until all workers
know them.

A change of a session's subscriptions is announced before it is carried out. When every other worker
knows of it, the session is subscribed and gets its reply: a PUBLISH after that reply, on any
worker, reaches it. Unsubscribing works the same way, so that the counts on other workers are right
when it is confirmed. In between, the announced count of a name is that of its subscribers plus the
pending changes.

All changes of one pass are one announcement with a number. Each link acknowledges the number of the
last one it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.core.channels.audience import Kind
from headgate.core.channels.peers import InterestChange, Name
from headgate.core.model.ids import SessionId


class Announcements:
    """Announcements to other workers, and the sessions that wait for acknowledgements.

    A worker owns one. It is called for every pending change and every change made, and once in each
    pass for the announcement to send.
    """

    def __init__(self, subscribers: Callable[[Kind, bytes], int]) -> None:
        self._subscribers = subscribers
        """Number of sessions of this worker that are subscribed to a name."""
        self._announced: dict[Name, int] = {}
        """The announced count of each name, where it is not 0."""
        self._wishes: dict[SessionId, dict[Name, int]] = {}
        """The pending changes of each session: names it will be subscribed to (1) or taken off
        (-1)."""
        self._wished: dict[Name, int] = {}
        """The sum of all pending changes by name."""
        self._changed: dict[Name, None] = {}
        """Names whose count may differ from the announced one."""
        self.number = 0
        """Number of the last announcement."""
        self._known: dict[SessionId, int] = {}
        """The last announcement that each link has acknowledged."""
        self._asking: dict[SessionId, None] = {}
        """Sessions that wait for the next announcement."""
        self._waiting: dict[SessionId, int] = {}
        """Sessions that wait for all workers to know an announcement, with its number."""

    # Sessions.

    def wish(self, session: SessionId, changes: Mapping[Name, int]) -> None:
        """Note that a session is about to subscribe (1) or unsubscribe (-1); it waits until all
        workers know."""
        mine = self._wishes.setdefault(session, {})
        for name, change in changes.items():
            if name not in mine:
                mine[name] = change
                self._add(name, change)
        self._asking[session] = None

    def changed(self, session: SessionId, kind: Kind, names: Iterable[bytes]) -> None:
        """Note that a session was subscribed to names or taken off them: its pending change is
        done."""
        mine = self._wishes.get(session)
        for each in names:
            name = (kind, each)
            self._changed[name] = None
            if mine and (change := mine.pop(name, 0)):
                self._add(name, -change)

    def forget(self, session: SessionId) -> None:
        """Drop the pending changes of a session: they will not be made, or were not needed."""
        for name, change in self._wishes.pop(session, {}).items():
            self._add(name, -change)
        self._asking.pop(session, None)
        self._waiting.pop(session, None)

    def asking(self) -> Iterator[SessionId]:
        """The sessions that wait for the next announcement."""
        return iter([*self._asking])

    def is_waiting(self, session: SessionId) -> bool:
        return session in self._asking or session in self._waiting

    def _add(self, name: Name, change: int) -> None:
        self._changed[name] = None
        total = self._wished.pop(name, 0) + change
        if total:
            self._wished[name] = total

    # Links.

    @property
    def is_due(self) -> bool:
        """Whether there are changes to announce, or sessions that wait for an announcement."""
        return bool(self._changed or self._asking)

    def take(self) -> list[InterestChange]:
        """The next announcement: every name whose count differs from the announced one. It may be
        empty, for sessions that need to know that all earlier ones are known."""
        changes = []
        for name in self._changed:
            count = self._subscribers(*name) + self._wished.get(name, 0)
            if count != self._announced.get(name, 0):
                changes.append(InterestChange(*name, count))
                if count:
                    self._announced[name] = count
                else:
                    del self._announced[name]
        self._changed.clear()
        self.number += 1
        self._waiting.update(dict.fromkeys(self._asking, self.number))
        self._asking.clear()
        return changes

    def everything(self) -> list[InterestChange]:
        """All announced names with their counts, for a new worker."""
        return [InterestChange(*name, count) for name, count in self._announced.items()]

    def join(self, link: SessionId) -> None:
        """Add the link to a new worker. It is sent everything first, and has no clients before
        that."""
        self._known[link] = self.number

    def known(self, link: SessionId, number: int) -> list[SessionId]:
        """Note that a worker knows this announcement and all before it; return the sessions that
        may go on."""
        self._known[link] = number
        return self.free()

    def leave(self, link: SessionId) -> None:
        """Remove the link to a worker that is gone: no session waits for it any more."""
        self._known.pop(link, None)

    def free(self) -> list[SessionId]:
        """Remove and return the sessions whose announcement all workers know."""
        least = min(self._known.values(), default=self.number)
        free = [session for session, number in self._waiting.items() if number <= least]
        for session in free:
            del self._waiting[session]
        return free
