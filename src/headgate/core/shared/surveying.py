"""Adding messages by queue name, and answers about a queue and its readers."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headgate.core.model.ids import AppId, Seq, SessionId
from headgate.core.model.limits import Limits
from headgate.core.model.stream_id import id_of
from headgate.core.reader_commands import Add, ListPending, MakeQueue, Survey
from headgate.core.reader_effects import (
    Added,
    AppView,
    Counted,
    PendingListed,
    PendingMessage,
    ReaderView,
    Surveyed,
)
from headgate.core.shared.accepting import Accepting
from headgate.core.shared.app import App
from headgate.core.shared.browsing import Browsing, ends_of
from headgate.core.shared.catalog import Catalog
from headgate.core.shared.queue import SharedQueue
from headgate.core.shared.reader import Readers
from headgate.core.turn.store_requests import Parts
from headgate.core.turn.turn import Turn
from headgate.errors import HeadgateError, LimitReached, NoSuchApp

HELD_A_LOOK = 100
READERS_A_LOOK = 4
"""Messages and readers of an app that take the time of one look."""


class Surveying:
    """Carries out `Add` and `MakeQueue`, and answers `Survey` and `ListPending`.

    Owned by `SharedQueues`; the shard calls it for Redis Streams.
    """

    def __init__(
        self,
        limits: Limits,
        readers: Readers,
        catalog: Catalog,
        accepting: Accepting,
        browsing: Browsing,
    ) -> None:
        self._limits = limits
        self._browsing = browsing
        self._readers = readers
        self._catalog = catalog
        self._accepting = accepting

    def add(self, command: Add, turn: Turn) -> None:
        try:
            self._catalog.of_reader(command, command.client, "write")
            queue = self._catalog.find(command, turn)
            if queue is None:
                if not command.makes:
                    turn.effects.append(Added(command.session, command.ref, command.queue, None))
                    return
                queue = self._catalog.find_or_make(command, command.client, turn)
            id = self._accepting.add(command, queue, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        if turn.now - queue.used > 1.0:
            turn.undo.assign(queue, "used", turn.now)
        turn.effects.append(Added(command.session, command.ref, command.queue, id))

    def make_queue(self, command: MakeQueue, turn: Turn) -> None:
        try:
            self._catalog.of_reader(command, command.client, "read")
            before = self._catalog.find(command, turn)
            if before is None:
                self._catalog.find_or_make(command, command.client, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        turn.effects.append(Counted(command.session, command.ref, int(before is None)))

    def survey(self, command: Survey, turn: Turn) -> Parts:
        """Describe a queue, with its first and last message, or its first ones."""
        if command.shows and turn.sent_bytes > self._limits.range_bytes:
            turn.again.append(command)
            return
        try:
            self._catalog.domain_of(command)
            queue = self._catalog.find(command, turn)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        if queue is None:
            turn.effects.append(Surveyed(command.session, command.ref, False))
            return
        first, last = ends_of(queue)
        most = command.shows if command.shows > 1 else 0
        names = sorted(queue.app_ids()) if queue.domain.is_open else queue.app_ids()
        views: list[AppView] = []
        try:
            for name in names if command.apps is None else command.apps:
                app = queue.apps.get(name)
                if app is None or not queue.has_app(name):
                    continue
                if most:
                    self._check_rows(queue, names, most)
                views.append(self._view(queue, app, most, turn))
                turn.work += self._work(queue, app)
                if turn.take_breath():
                    yield None
            if command.shows and first is not None and last is not None:
                yield from self._browsing.showing(
                    queue, first, last, command.shows, command.session, command.ref, turn
                )
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        turn.effects.append(
            Surveyed(
                command.session,
                command.ref,
                True,
                len(queue.entries) + len(queue.kept),
                queue.last_id if queue.newest else last,
                tuple(views),
                queue.added,
                first,
                len(names),
            )
        )

    def _check_rows(self, queue: SharedQueue, names: Collection[AppId], most: int) -> None:
        """Raise if an answer about all readers and their messages would be too long."""
        rows = sum(
            2 * min(most, len(queue.apps[name].outstanding))
            + len(self._readers.of_app(queue.id, name))
            for name in names
            if name in queue.apps
        )
        if rows > self._limits.range_messages:
            raise LimitReached("range_messages", self._limits.range_messages)

    def _work(self, queue: SharedQueue, app: App) -> int:
        """The work of listing an app's held messages and their readers."""
        readers = len(self._readers.of_app(queue.id, app.id))
        return len(app.outstanding) // HELD_A_LOOK + readers // READERS_A_LOOK

    def list_pending(self, command: ListPending, turn: Turn) -> Iterator[None]:
        try:
            self._catalog.of_reader(command, command.client, "read")
            queue = self._catalog.find(command, turn)
            if queue is None or not queue.has_app(command.app):
                raise NoSuchApp(command.app)
        except HeadgateError as error:
            turn.fail(command.session, command.ref, command.queue, error)
            return
        app, most = queue.apps[command.app], self._limits.range_messages
        found: list[PendingMessage] = []
        for seq in sorted(app.outstanding):
            if len(found) >= command.count:
                break
            if len(found) == most:
                reached = LimitReached("range_messages", most)
                turn.fail(command.session, command.ref, command.queue, reached)
                return
            turn.work += 1
            if turn.take_breath():
                yield
            id, holder = id_of(queue.entries[seq]), app.outstanding[seq]
            if not command.first <= id <= command.last:
                continue
            reader = self._readers.by_number.get(holder.session)
            name = None if reader is None else reader.name
            idle = turn.now - holder.gate.outstanding[seq][1]
            if idle < command.idle or (command.reader is not None and name != command.reader):
                continue
            times = 1 + app.redelivery.repeats.get(seq, 0)
            found.append(PendingMessage(id, name, holder.session, idle, times))
        turn.effects.append(PendingListed(command.session, command.ref, tuple(found)))

    def _held(
        self, queue: SharedQueue, app: App, seqs: list[Seq], turn: Turn
    ) -> tuple[PendingMessage, ...]:
        """These messages of an app, each with its reader."""
        found = []
        for seq in seqs:
            holder = app.outstanding[seq]
            reader = self._readers.by_number.get(holder.session)
            name = None if reader is None else reader.name
            idle = turn.now - holder.gate.outstanding[seq][1]
            times = 1 + app.redelivery.repeats.get(seq, 0)
            id = id_of(queue.entries[seq])
            found.append(PendingMessage(id, name, holder.session, idle, times))
        return tuple(found)

    def _view(self, queue: SharedQueue, app: App, most: int, turn: Turn) -> AppView:
        readers = self._readers.of_app(queue.id, app.id)
        held = sorted(app.outstanding)[:most] if most else []
        oldest = min(app.outstanding, default=None)
        newest = max(app.outstanding, default=None)
        others: dict[SessionId, int] = {}
        for taker in app.outstanding.values():
            if taker.session > 0:
                others[taker.session] = others.get(taker.session, 0) + 1
        return AppView(
            app.id,
            tuple(
                ReaderView(
                    name,
                    len(reader.gate.outstanding),
                    turn.now - reader.pulled,
                    reader.pulled,
                    reader.active,
                    self._held(queue, app, reader.held[:most], turn) if most else (),
                )
                for name, reader in sorted(readers.items())
            ),
            tuple(sorted(others.items())),
            len(app.outstanding),
            None if oldest is None else id_of(queue.entries[oldest]),
            None if newest is None else id_of(queue.entries[newest]),
            app.undelivered(),
            app.passed if newest is None else max(app.passed, id_of(queue.entries[newest])),
            self._held(queue, app, held, turn),
            turn.now,
        )
