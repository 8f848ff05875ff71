"""Announcements of subscriptions to the other workers, and the sessions that wait until all workers
know them.

A change of a session's subscriptions is announced before it is carried out. When every other worker
knows of it, the session is subscribed and gets its reply: a PUBLISH after that reply, on any
worker, reaches it. Unsubscribing works the same way, so that the counts on other workers are right
when it is confirmed. In between, the announced count of a name is that of its subscribers plus the
pending changes.

All changes of one pass are one announcement with a number. Each link acknowledges the number of the
last one it knows. One client may subscribe to very many names at once: an announcement has only so
many, in the order in which they changed, and a session waits for the one with its last name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

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
        self._coming: dict[SessionId, Iterator[tuple[Name, int]]] = {}
        """The changes of sessions that are still to become pending."""
        self._wishes: dict[SessionId, dict[Name, int]] = {}
        """The pending changes of each session: names it will be subscribed to (1) or taken off
        (-1)."""
        self._dropped: list[dict[Name, int]] = []
        """Pending changes that will not be made, still in the sums."""
        self._wished: dict[Name, int] = {}
        """The sum of all pending changes by name."""
        self._changed: dict[Name, None] = {}
        """Names whose count may differ from the announced one, the first one to change first."""
        self._taken = 0
        """How many names have been taken from there."""
        self.number = 0
        """Number of the last announcement."""
        self._known: dict[SessionId, int] = {}
        """The last announcement that each link has acknowledged."""
        self._asking: dict[SessionId, int] = {}
        """Sessions that wait for an announcement, and how many names are taken with it."""
        self._waiting: dict[SessionId, int] = {}
        """Sessions that wait for all workers to know an announcement, with its number."""

    # Sessions.

    def wish(self, session: SessionId, changes: Iterable[tuple[Name, int]]) -> None:
        """Note that a session is about to subscribe (1) or unsubscribe (-1); it waits until all
        workers know. The changes are looked at when there is a turn for them."""
        self._asking.pop(session, None)
        self._coming[session] = iter(changes)

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
        if wishes := self._wishes.pop(session, None):
            self._dropped.append(wishes)
        self._coming.pop(session, None)
        self._asking.pop(session, None)
        self._waiting.pop(session, None)

    def is_waiting(self, session: SessionId) -> bool:
        return any(session in each for each in (self._coming, self._asking, self._waiting))

    def _note(self, most: int) -> None:
        """Undo what was dropped and make pending what is coming, so many names. A session with
        more goes to the end."""
        while self._dropped and most:
            name, change = self._dropped[-1].popitem()
            self._add(name, -change)
            if not self._dropped[-1]:
                self._dropped.pop()
            most -= 1
        while self._coming and most:
            session = next(iter(self._coming))
            coming = self._coming.pop(session)
            mine = self._wishes.setdefault(session, {})
            some = [*islice(coming, most)]
            for name, change in some:
                if name not in mine:
                    mine[name] = change
                    self._add(name, change)
            if len(some) < most:
                self._asking[session] = self._taken + len(self._changed)
            else:
                self._coming[session] = coming
            most -= len(some)

    def _add(self, name: Name, change: int) -> None:
        self._changed[name] = None
        total = self._wished.pop(name, 0) + change
        if total:
            self._wished[name] = total

    # Links.

    @property
    def is_due(self) -> bool:
        """Whether there are changes to announce, or sessions that wait for an announcement."""
        return bool(self._changed or self._asking or self._coming or self._dropped)

    def take(self, most: int) -> list[InterestChange]:
        """The next announcement: names whose count differs from the announced one, among so many
        that changed. It may be empty, for sessions that need to know that all earlier ones are
        known."""
        self._note(most)
        changes = []
        names = [*islice(self._changed, most)]
        self._taken += len(names)
        for name in names:
            del self._changed[name]
            count = self._subscribers(*name) + self._wished.get(name, 0)
            if count != self._announced.get(name, 0):
                changes.append(InterestChange(*name, count))
                if count:
                    self._announced[name] = count
                else:
                    del self._announced[name]
        self.number += 1
        while self._asking:
            session, last = next(iter(self._asking.items()))
            if last > self._taken:
                break
            del self._asking[session]
            self._waiting[session] = self.number
        return changes

    def everything(self) -> Iterator[InterestChange]:
        """All announced names, for a new worker, with their counts when they are reached. What is
        announced meanwhile it is sent as well."""
        for name in [*self._announced]:
            if count := self._announced.get(name):
                yield InterestChange(*name, count)

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
