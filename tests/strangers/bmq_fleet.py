"""A router and the connections of all clients, and how to wait until all is quiet.

A client that was answered posts a message that no app wants, and waits for the acknowledgement: the
effects of a turn are said in their order, so whatever was on its way to it has arrived by then. A
connection that ends has no answer; but its client held a message of a queue that another one
watches, and what was in the hands of a lost client is given to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from tests.strangers import bmq_wire as wire
from tests.strangers.bmq_model import PRIORITY, SUCCESS, Difference, Domain
from tests.strangers.bmq_router import Router
from tests.strangers.bmq_steps import CLIENTS, DOMAINS
from tests.strangers.bmq_wire import READ, WRITE, Acked, Answered, Frame, Line, Pushed, Wanted

FENCES = Domain("fence", PRIORITY, filters={"": ("exists(fence)",)})
"""Takes messages and keeps none, since nobody sets the property."""
WATCHES = Domain("watch", PRIORITY)
"""Where each client has one message in its hands, so that its end is noticed."""
FENCE, WATCH, FIRST_WATCH, FIRST = 0, 1, 2, 10
"""Numbers of queues on a connection; the poster watches one queue for each of the others."""


class Fleet:
    """A router and the connections of all clients, which last from one sequence to the next."""

    def __init__(self, limits: dict[str, int] | None = None) -> None:
        self.router = Router((*DOMAINS, FENCES, WATCHES), limits)
        self.is_slow = bool(limits)
        """Whether a fence may come before all that a step causes: its work takes many turns."""
        self._guids = itertools.count(1)
        self._names = itertools.count()
        self.lines: list[Line] = []
        self.seen: list[tuple[int, Frame]] = []
        """What came and was not looked at yet, with the client it came to."""
        self.late = 0
        """Fences beyond the first that something needed."""
        try:
            self.connect()
        except BaseException:
            self.stop()
            raise

    def connect(self) -> None:
        """Connect everybody anew."""
        for line in self.lines:
            line.close()
        self.lines = []
        self.seen = []
        self._watched = f"w{next(self._names)}"
        for client in range(len(CLIENTS)):
            self.lines.append(self._line(client))
        for client in range(1, len(CLIENTS)):
            self._ask(0, wire.OPEN, self._watch_handle(client, READ | WRITE, FIRST_WATCH + client))
            self._want(0, FIRST_WATCH + client, 0)
            self._settle(client)
        self.seen = []

    def _line(self, client: int) -> Line:
        line = Line(self.router.port, CLIENTS[client], bytes([client] * 6))
        self.lines[client : client + 1] = [line]
        self._ask(
            client,
            wire.OPEN,
            wire.handle(f"bmq://fence/{CLIENTS[client]}", FENCE, 0, None, WRITE),
        )
        return line

    def _watch_handle(self, client: int, flags: int, number: int) -> bytes:
        uri = f"bmq://watch/{self._watched}-{CLIENTS[client]}"
        return wire.handle(uri, number, 0, None, flags)

    def _want(self, client: int, queue: int, priority: int) -> None:
        everything = Wanted(1, None, priority, 10, 1 << 20)
        self._ask(client, wire.CONFIGURE, *wire.configure(queue, None, [everything]))

    def _ask(self, client: int, selection: int, *fields: bytes) -> None:
        answer = self.ask(client, selection, *fields)
        if answer.category != "E_SUCCESS":
            raise Difference(f"{CLIENTS[client]} cannot prepare: {answer}")

    def _settle(self, client: int) -> None:
        """Put a message into the client's hands whose return shows that it is gone."""
        self._ask(client, wire.OPEN, self._watch_handle(client, READ, WATCH))
        self._want(client, WATCH, 10)
        guid = self.guid()
        put = wire.put(FIRST_WATCH + client, guid, b"watch", False, False)
        self.lines[0].send(wire.event(wire.PUT, put))
        self.wait(client, lambda frame: isinstance(frame, Pushed) and frame.guid == guid)

    def end(self, client: int, how: str) -> None:
        """End the client's connection."""
        line = self.lines[client]
        if how == "stop":
            self._ask(client, wire.DISCONNECT)
        elif how == "torn":
            put = wire.put(FIRST, self.guid(), b"torn", False, True)
            line.send(wire.event(wire.PUT, put)[:-4])
        line.close(reset=how == "reset")

    def come_back(self, client: int) -> None:
        """Wait until the router has noticed that the client is gone, and connect it anew."""
        queue = FIRST_WATCH + client
        returned = self.wait(0, lambda frame: isinstance(frame, Pushed) and frame.queue == queue)
        assert isinstance(returned, Pushed)
        self.lines[0].send(wire.confirms([(queue, returned.guid, 0)]))
        self.seen = [seen for seen in self.seen if seen[0] != client and seen[1] != returned]
        self._line(client)
        self._settle(client)
        self.seen = [
            seen
            for seen in self.seen
            if not (isinstance(seen[1], Pushed) and seen[1].queue == WATCH)
        ]

    def guid(self) -> bytes:
        return b"\x40" + next(self._guids).to_bytes(9, "big") + b"hgmqst"

    def ask(self, client: int, selection: int, *fields: bytes) -> Answered:
        number, data = self.lines[client].request(selection, *fields)
        self.lines[client].send(data)
        return self.answer(client, number)

    def answer(self, client: int, number: int) -> Answered:
        frame = self.wait(
            client,
            lambda frame: isinstance(frame, Answered) and frame.request == number,
            keep=False,
        )
        assert isinstance(frame, Answered)
        return frame

    def wait(self, client: int, is_it: Callable[[Frame], bool], keep: bool = True) -> Frame:
        """Read what comes to the client up to a frame; the others are kept in ``seen``."""
        for _, frame in self.seen if keep else ():
            if is_it(frame):
                return frame
        found: Frame | None = None
        while found is None:
            for frame in self.lines[client].frames():
                if found is None and is_it(frame):
                    found = frame
                    if not keep:
                        continue
                self.seen.append((client, frame))
        return found

    def fence(self, clients: Iterable[int]) -> None:
        """Wait until everything that was under way to these clients has arrived."""
        marks = {client: self.guid() for client in clients}
        for client, guid in marks.items():
            self.lines[client].send(
                wire.event(wire.PUT, wire.put(FENCE, guid, b"fence", False, True))
            )
        for client, guid in marks.items():
            frame = self.wait(client, _is_ack_of(guid), keep=False)
            if not isinstance(frame, Acked) or frame.status != SUCCESS:
                raise Difference(f"{CLIENTS[client]} is told {frame} of a message nobody wants")

    def stop(self) -> None:
        for line in self.lines:
            line.close()
        self.router.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _is_ack_of(guid: bytes) -> Callable[[Frame], bool]:
    return lambda frame: isinstance(frame, Acked) and frame.guid == guid
