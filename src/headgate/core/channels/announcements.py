"""Announcements: what a worker tells the others of its own subscribers, and who waits until they
know it.

A session's wish to subscribe is announced before it is granted. When every other worker knows, the
session is subscribed and told so: a PUBLISH after that, on whatever worker, does not miss it. To
leave goes the same way, so that the counts that others tell are right when it is confirmed. Between
the two the count that was announced is that of the subscribers and of the wishes together.

All changes of one pass are one announcement with a number. Each link says which number it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from headgate.core.channels.audience import Kind
from headgate.core.channels.peers import InterestChange, Name
from headgate.core.model.ids import SessionId


class Announcements:
    """Announcements to other workers, and who waits for their answers. A worker owns one; it is
    told of every wish and of every change of its channels, and asked once in each pass what is to
    be sent."""

    def __init__(self, subscribers: Callable[[Kind, bytes], int]) -> None:
        self._subscribers = subscribers
        """How many sessions of this worker are subscribed to a name."""
        self._announced: dict[Name, int] = {}
        """What was announced of each name, where it is not 0."""
        self._wishes: dict[SessionId, dict[Name, int]] = {}
        """Of each session, the names that it is about to subscribe to (1) or to leave (-1)."""
        self._wished: dict[Name, int] = {}
        """The sum of all wishes."""
        self._changed: dict[Name, None] = {}
        """Names that may have to be announced."""
        self.number = 0
        """Of the last announcement."""
        self._known: dict[SessionId, int] = {}
        """By link, the last announcement that it is known to know."""
        self._asking: dict[SessionId, None] = {}
        """Who waits for the next announcement."""
        self._waiting: dict[SessionId, int] = {}
        """Who waits until everybody knows which announcement."""

    # Sessions.

    def wish(self, session: SessionId, changes: Mapping[Name, int]) -> None:
        """A session is about to subscribe (1) or to leave (-1); it waits until everybody knows."""
        mine = self._wishes.setdefault(session, {})
        for name, change in changes.items():
            if name not in mine:
                mine[name] = change
                self._add(name, change)
        self._asking[session] = None

    def changed(self, session: SessionId, kind: Kind, names: Iterable[bytes]) -> None:
        """A session was subscribed to names or taken off them: what it wished is done."""
        mine = self._wishes.get(session)
        for each in names:
            name = (kind, each)
            self._changed[name] = None
            if mine and (change := mine.pop(name, 0)):
                self._add(name, -change)

    def forget(self, session: SessionId) -> None:
        """Forget the wishes of a session: they will not be carried out, or were not needed."""
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
        """Whether there is something to announce, or somebody waits for an announcement."""
        return bool(self._changed or self._asking)

    def take(self) -> list[InterestChange]:
        """The next announcement: every name whose count is another than was announced. It may be
        empty, for those who want to know that everybody knows everything before it."""
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
        """All names that were announced, with their counts, for a new worker."""
        return [InterestChange(*name, count) for name, count in self._announced.items()]

    def join(self, link: SessionId) -> None:
        """A worker is told everything before anything else, and has no clients before that."""
        self._known[link] = self.number

    def known(self, link: SessionId, number: int) -> list[SessionId]:
        """A worker knows this announcement and all before it; return who may go on."""
        self._known[link] = number
        return self.free()

    def leave(self, link: SessionId) -> None:
        """A worker is gone: nobody waits for it."""
        self._known.pop(link, None)

    def free(self) -> list[SessionId]:
        """The sessions that waited, and need not any longer."""
        least = min(self._known.values(), default=self.number)
        free = [session for session, number in self._waiting.items() if number <= least]
        for session in free:
            del self._waiting[session]
        return free
