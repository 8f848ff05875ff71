"""Events of connections that the records keep until the application has read or answered them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from headgate.agent.connections.command_tasks import ACCEPT, ConnectionCommands
from headgate.agent.connections.connection import Connection
from headgate.agent.connections.parts import ConnectionParts
from headgate.agent.events import Confirmation, Connected, ConnectionEvent, Info, Request
from headgate.agent.model import ConnectionId
from headgate.agent.records import commands, connections, requests
from headgate.agent.records.commands import CONNECTED, INFO, CommandRecord
from headgate.agent.records.connections import ConnectionRecord, ConnectionStatus
from headgate.agent.records.database import Database
from headgate.agent.records.requests import Asked, Question
from headgate.core.model.value import value

ANNOUNCED: Final = (INFO, CONNECTED)
PAGE: Final = 100
"""Questions that are read at once: each may be long."""

Kept: TypeAlias = tuple[str, int]
"""The kind of an event in the records, and its number among those."""


class Answers(Protocol):
    """The port for the application's answers."""

    async def accept(self, connection: ConnectionId, info: bytes = b"") -> None:
        """Accept the user of our invitation."""
        ...

    async def accept_request(
        self, id: int, info: bytes = b"", name: str | None = None, pq: bool = False
    ) -> Connection:
        """Accept a request at our address."""
        ...

    async def reject_request(self, id: int) -> None:
        """Drop a request."""
        ...


class Announcement:
    """A place among the events for one in the records; `load` makes the event when the application
    reaches it. So peers' data takes no memory meanwhile."""

    __slots__ = ("_load", "name")

    def __init__(self, name: str, load: Callable[[], Awaitable[ConnectionEvent | None]]) -> None:
        self.name = name
        self._load = load

    async def load(self) -> ConnectionEvent | None:
        """The event; None if it was answered meanwhile, or its connection is gone. A cancelled
        reader calls it again. It raises `StoreError` if the records cannot be read."""
        return await self._load()

    def __repr__(self) -> str:
        return f"Announcement({self.name})"


@value
class Waiting:
    """An entry about one connection that the records keep for the application."""

    record: ConnectionRecord | None
    announced: list[CommandRecord]
    accept: CommandRecord | None
    """Whether a confirmation is accepted without asking."""
    questions: list[tuple[Asked, int]]


class Announcements:
    """Shows the events in the records to the application. What must hold: an unread event is shown
    again in the next run, and a question until it is answered; in one run each is shown once."""

    def __init__(
        self,
        parts: ConnectionParts,
        answers: Answers,
        tasks: ConnectionCommands,
        show: Callable[[Announcement], None],
        made: Callable[[ConnectionId], None],
    ) -> None:
        self._records = parts.records
        self._answers = answers
        self._tasks = tasks
        self._show = show
        self._made = made
        """Called when a connection is ready and that was announced."""
        self._shown: dict[ConnectionId, set[Kept]] = {}
        """The events of each connection that were shown in this run."""

    async def update(self, connection: ConnectionId) -> None:
        """Show the new events of a connection."""
        waiting = await self._records.read(_waiting, connection)
        shown = self._shown.pop(connection, set())
        kept: dict[Kept, Announcement] = {
            (command.kind, command.id): self._announcement(command) for command in waiting.announced
        }
        for asked, id in waiting.questions:
            if asked is Asked.CONFIRMATION and waiting.accept is not None:
                self._tasks.start(waiting.accept)
            else:
                kept[asked.name, id] = self._question(asked, id)
        if kept:
            self._shown[connection] = set(kept)
        for key, announcement in kept.items():
            if key not in shown:
                self._show(announcement)
        if waiting.record is not None and waiting.record.status is ConnectionStatus.READY:
            self._made(connection)

    async def resume(self) -> None:
        """Show all events that were not read or answered."""
        after = 0
        while page := await self._records.read(commands.page, after):
            for connection in dict.fromkeys(command.connection for command in page):
                await self.update(connection)
            after = page[-1].id
        for kind in Asked:
            after = 0
            while questions := await self._records.read(requests.page, kind, after, PAGE):
                for connection in dict.fromkeys(each.connection for each in questions):
                    await self.update(connection)
                after = questions[-1].id

    def _announcement(self, command: CommandRecord) -> Announcement:
        async def load() -> ConnectionEvent | None:
            record = await self._records.read(connections.get, command.connection)
            # It may come again after a crash: the mark that it was read is stored after it.
            read = self._records.write(commands.remove, command.id)
            read.add_done_callback(lambda done: done.cancelled() or done.exception())
            if record is None:
                return None
            if command.kind == INFO:
                return Info(record.id, record.info or b"")
            return Connected(record.id)

        return Announcement(command.kind, load)

    def _question(self, asked: Asked, id: int) -> Announcement:
        async def load() -> ConnectionEvent | None:
            question = await self._records.read(requests.get, asked, id)
            return None if question is None else self._event(asked, question)

        return Announcement(asked.name, load)

    def _event(self, asked: Asked, question: Question) -> ConnectionEvent:
        if asked is Asked.CONFIRMATION:
            return Confirmation(question.connection, question.info, self._answers.accept)
        return Request(
            question.connection,
            question.id,
            question.info,
            self._answers.accept_request,
            self._answers.reject_request,
        )


def _waiting(tables: Database, connection: ConnectionId) -> Waiting:
    """A job of the records."""
    found = commands.of_connections(tables, [connection])[connection]
    accepts = [command for command in found if command.kind == ACCEPT]
    return Waiting(
        connections.get(tables, connection),
        [command for command in found if command.kind in ANNOUNCED],
        accepts[0] if accepts else None,
        [(asked, id) for asked in Asked for id in requests.waiting_ids(tables, asked, connection)],
    )
