"""Readers: named consumers of an app, which hold messages by their name and not by a connection.

A session pulls by the name of a reader, and is one of its sessions from then on. Messages belong to
the reader, whichever session confirms them; they go to others only when all of its sessions have
been gone for a while. A reader has a number in place of a session id: below zero, and never used
again. So it takes turns with the other consumers of its app.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.delivery.gate import Gate
from headgate.core.model.ids import AppId, QueueId, Ref, Seq, SessionId
from headgate.core.model.interest import Interest
from headgate.core.model.message import MessageEntry
from headgate.core.model.window import Window
from headgate.core.reader_effects import Past
from headgate.core.shared.app import App
from headgate.core.shared.dispatch import Subscription
from headgate.core.shared.queue import SharedQueue
from headgate.core.turn.turn import Turn
from headgate.core.turn.undo import Undo

EVERYTHING = Window(1 << 40)
"""The window of a reader. A pull limits what it gets; its gate is shut otherwise."""


class OpenPull:
    """A pull under way: the request to answer, and the readers that may get messages by it."""

    __slots__ = (
        "bytes",
        "claims",
        "confirms",
        "count",
        "gave",
        "given",
        "past",
        "readers",
        "ref",
        "session",
    )

    def __init__(
        self,
        session: SessionId,
        ref: Ref,
        count: int,
        bytes: int,
        *,
        confirms: bool,
        claims: float | None = None,
    ) -> None:
        self.session = session
        self.ref = ref
        self.count = count
        """Messages that each of its readers may get at most."""
        self.bytes = bytes
        """Bytes that each of its readers may get, about."""
        self.readers: list[Reader] = []
        self.given = 0
        """Messages given so far."""
        self.confirms = confirms
        self.gave: list[tuple[Reader, Seq]] = []
        """The same messages, if they are confirmed with it."""
        self.claims = claims
        """Seconds after which it claims what a reader holds, if it does."""
        self.past: Past | None = None if claims is None else {}
        """Of those messages, if it claims."""


class Reader:
    """A named consumer of an app.

    Owned by `Readers`. Its gate has all messages that it holds, under whatever expression it got
    them; the gate is shut unless a pull is under way.
    """

    __slots__ = (
        "active",
        "app",
        "bytes_left",
        "gate",
        "interest",
        "is_grouped",
        "left",
        "name",
        "number",
        "pulled",
        "pulls",
        "queue",
        "sessions",
        "subscription",
    )

    def __init__(
        self, name: bytes, number: SessionId, queue: SharedQueue, app: App, now: float
    ) -> None:
        self.name = name
        self.number = number
        self.queue = queue
        self.app = app
        self.gate: Gate[Seq] = Gate(EVERYTHING)
        self.gate.held = True
        self.interest = Interest(window=EVERYTHING)
        self.subscription = Subscription(number, 0, None, 0, self.gate)
        self.is_grouped = False
        """Whether it is in a group, and so sought for messages: it pulled lately."""
        self.sessions: set[SessionId] = set()
        """Its sessions: those that pulled by its name."""
        self.pulls: list[OpenPull] = []
        """The pulls by its name, oldest first: the first is given messages, and the others wait for
        that."""
        self.left = 0
        """Messages that it may still get by its pull."""
        self.bytes_left = 0
        self.pulled = now
        """When it last pulled."""
        self.active: float | None = None
        """When it was last given messages, or claimed some."""

    @property
    def pull(self) -> OpenPull | None:
        """The pull by which it gets messages."""
        return self.pulls[0] if self.pulls else None

    @property
    def held(self) -> list[Seq]:
        """The unconfirmed messages of the reader, in order of arrival."""
        return sorted(self.gate.outstanding)


class Readers:
    """All readers of a shard, by number, by name and by session. They are in memory only: after a
    restart every unconfirmed message is in line again."""

    def __init__(self) -> None:
        self._last = 0
        self.by_number: dict[SessionId, Reader] = {}
        self.by_name: dict[tuple[QueueId, AppId], dict[bytes, Reader]] = {}
        self.by_session: dict[SessionId, dict[SessionId, None]] = {}
        """The numbers of each session's readers."""
        self.pulls: dict[SessionId, OpenPull] = {}
        """Waiting pulls by session, which has no other request meanwhile."""
        self.idle: dict[SessionId, float] = {}
        """Readers in groups without a pull, and since when, longest first."""
        self.deserted: dict[SessionId, float] = {}
        """Readers without sessions, and since when."""
        self.served: dict[SessionId, OpenPull] = {}
        """Waiting pulls that were given messages in this turn."""

    def find(self, queue: QueueId, app: AppId, name: bytes) -> Reader | None:
        return self.by_name.get((queue, app), {}).get(name)

    def of_app(self, queue: QueueId, app: AppId) -> dict[bytes, Reader]:
        return self.by_name.get((queue, app), {})

    def make(self, name: bytes, queue: SharedQueue, app: App, turn: Turn) -> Reader:
        """A new reader, without sessions yet."""
        undo = turn.undo
        undo.assign(self, "_last", self._last + 1)
        reader = Reader(name, SessionId(-self._last), queue, app, turn.now)
        undo.put(self.by_number, reader.number, reader)
        key = (queue.id, app.id)
        if key not in self.by_name:
            undo.put(self.by_name, key, {})
        undo.put(self.by_name[key], name, reader)
        undo.put(self.deserted, reader.number, turn.now)
        return reader

    def forget(self, reader: Reader, undo: Undo) -> None:
        """Remove a reader that is in no group, and whose messages are being taken from it."""
        key = (reader.queue.id, reader.app.id)
        undo.pop(self.by_number, reader.number)
        undo.pop(self.by_name[key], reader.name)
        if not self.by_name[key]:
            undo.pop(self.by_name, key)
        for session in reader.sessions:
            undo.pop(self.by_session[session], reader.number)
        undo.pop(self.idle, reader.number)
        undo.pop(self.deserted, reader.number)

    def speak(self, session: SessionId, reader: Reader, undo: Undo) -> None:
        """Add a session to those of a reader."""
        if session not in reader.sessions:
            undo.add(reader.sessions, session)
            if session not in self.by_session:
                undo.put(self.by_session, session, {})
            undo.put(self.by_session[session], reader.number, None)
            undo.pop(self.deserted, reader.number)

    def leave(self, session: SessionId, now: float, undo: Undo) -> None:
        """Remove a session that is gone from its readers."""
        for number in undo.pop(self.by_session, session) or ():
            reader = self.by_number[number]
            undo.discard(reader.sessions, session)
            if not reader.sessions:
                undo.put(self.deserted, number, now)

    def give(
        self, reader: Reader, entry: MessageEntry, undo: Undo, held: float | None = None
    ) -> OpenPull:
        """A message goes to a reader, by its pull: out of the line, or from a reader that held it
        for so many seconds."""
        pull = reader.pull
        assert pull is not None, "only who fetches is given something"
        self._count(reader, pull, 1, entry.size)
        undo.note(self._count, reader, pull, -1, -entry.size)
        if pull.confirms and held is None:
            pull.gave.append((reader, entry.seq))
            undo.note(pull.gave.pop)
        if pull.past is not None:
            times = reader.app.redelivery.repeats.get(entry.seq, 0)
            undo.put(pull.past, (reader.queue.id, entry.seq), (held or 0.0, times))
        if pull.session in self.pulls:
            self.served[pull.session] = pull
        return pull

    def give_all(
        self,
        reader: Reader,
        pull: OpenPull,
        entries: Sequence[MessageEntry],
        size: int,
        undo: Undo,
    ) -> None:
        """Messages of so many bytes go out of the line to a reader, by its pull, which claims
        none."""
        self._count(reader, pull, len(entries), size)
        undo.note(self._count, reader, pull, -len(entries), -size)
        if pull.confirms:
            place = len(pull.gave)
            pull.gave += [(reader, entry.seq) for entry in entries]
            undo.note(pull.gave.__delitem__, slice(place, None))
        if pull.session in self.pulls:
            self.served[pull.session] = pull

    @staticmethod
    def _count(reader: Reader, pull: OpenPull, messages: int, size: int) -> None:
        """Count messages given to a reader by its pull."""
        reader.left -= messages
        reader.bytes_left -= size
        pull.given += messages
