"""The base of checkers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from headgate.core.commands import Command, GiveBack, Request
from headgate.core.model.ids import QueueId

if TYPE_CHECKING:
    from headgate.testing.world import World


class Checker:
    """A checker, with a method for each event it watches: `asked`, `applied`, `turn`, `crashed`,
    `reconfigured`, `published`, `flushed`, `heard`, `calmed`, `ended`."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world

    def fail(self, what: str) -> NoReturn:
        self.world.violation(self.name, what)


def by_ref(commands: Iterable[Command]) -> dict[object, Command]:
    """Requests, and what goes on with one, by what their answers carry."""
    requests = (c for c in commands if isinstance(c, Request | GiveBack))
    return {c.ref: c for c in requests if c.ref is not None}


def is_exclusive(queue: QueueId) -> bool:
    return queue.startswith(b"x")


def is_broadcast(queue: QueueId) -> bool:
    return queue.startswith(b"live/")
