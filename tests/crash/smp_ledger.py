"""What a router of the SMP wire has answered, and what its store may therefore have.

A kill cuts off answers. What was asked and not answered may have happened or not; once the store
has been looked at it is known, and the next round counts on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from headgate.client.smp.recipient import Key, Queue
from headgate.wire.smp.codec.replies import Err, Msg, Ok, Reply
from headgate.wire.smp.codec.sealed import QuotaMarker
from tests.crash.smp_stored import Contents, Kept

CLOCK = count(1)
"""What comes before what, among the requests and answers of one process."""


@dataclass
class Sent:
    """One SEND."""

    body: bytes
    asked_at: int = field(default_factory=lambda: next(CLOCK))
    is_taken: bool | None = None
    """Unless it is not known."""
    was_full: bool = False
    acks: int = 0
    """ACKs that are not answered."""
    is_gone: bool = False
    """An ACK was answered."""


@dataclass(eq=False)
class Line:
    """One queue, its senders and its recipients. Whoever changes more than its messages takes
    the lock, so that it is known which of two answers is the later one."""

    number: int
    queue: Queue
    sender_key: Key | None
    owners: set[bytes | None]
    """The services that it may be of."""
    is_secured: bool = False
    """KEY was answered."""
    sent: list[Sent] = field(default_factory=list)
    """What may be in the queue, in the order of the SENDs."""
    over: set[bytes] = field(default_factory=set)
    """Bodies that were not in the store after a kill, and must never come again."""
    notifier: bytes = b""
    renaming: bool = False
    """NKEY or NDEL is not answered."""
    notifier_owners: set[bytes | None] = field(default_factory=lambda: {None})
    has_marker: bool = False
    """Senders were told QUOTA, and nobody has read the marker."""
    marker_acks: int = 0
    unmarked_at: int = 0
    deleting: bool = False
    is_deleted: bool = False
    confirmed: set[bytes] = field(default_factory=set)
    """Ids of messages whose ACK was answered in this round."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_slow(self) -> bool:
        """Its recipients hardly ever ACK: it is full most of the time."""
        return self.number % 10 == 0

    @property
    def moves(self) -> bool:
        """Services and plain sessions take it from each other."""
        return self.number % 3 == 2

    @property
    def may_be_sent_to(self) -> bool:
        return not self.deleting and (self.sender_key is None or self.is_secured)

    # Sending.

    def asks(self, body: bytes) -> Sent:
        sent = Sent(body)
        self.sent.append(sent)
        return sent

    def answered(self, sent: Sent, reply: Reply) -> None:
        sent.is_taken = isinstance(reply, Ok)
        if sent.is_taken:
            self.has_marker = False
        elif reply == Err("QUOTA"):
            sent.was_full = True
            # If the marker was read meanwhile, it cannot be told which of the two came first.
            self.has_marker = self.unmarked_at < sent.asked_at

    # Receiving.

    def delivered(self, msg: Msg) -> Sent | None:
        """What was sent, or none for a marker. Raises `AssertionError` if it must not come."""
        body = self.queue.open(msg)
        if isinstance(body, QuotaMarker):
            return None
        assert body.body not in self.over, f"{self}: {body.body[:16]!r} came back"
        found = [sent for sent in self.sent if sent.body == body.body]
        assert found, f"{self}: {body.body[:16]!r} was never sent"
        assert found[0].is_taken is not False, f"{self}: {body.body[:16]!r} was refused"
        return found[0]

    def acks(self, sent: Sent | None) -> None:
        """An ACK is about to be asked for."""
        if sent is None:
            self.marker_acks += 1
        else:
            sent.acks += 1

    def acked(self, sent: Sent | None, id: bytes, reply: Reply) -> None:
        """It was answered, with the next message, OK or an error."""
        is_done = not isinstance(reply, Err)
        if is_done:
            self.confirmed.add(id)
        if sent is None:
            self.marker_acks -= 1
            if is_done:
                self.has_marker, self.unmarked_at = False, next(CLOCK)
        else:
            sent.acks -= 1
            sent.is_gone = sent.is_gone or is_done

    # After a kill.

    @property
    def cut_off(self) -> int:
        """Requests that were not answered."""
        unknown = sum((sent.is_taken is None) + sent.acks for sent in self.sent)
        changes = (self.deleting and not self.is_deleted) + self.renaming
        return unknown + self.marker_acks + changes + (len(self.owners) > 1)

    def compare(self, kept: Kept | None) -> Iterator[str]:
        """What is in the store and should not be, and the other way round."""
        if kept is None:
            if not (self.deleting or self.is_deleted):
                yield f"{self} was made, and is not there"
            return
        if self.is_deleted:
            yield f"{self} was deleted, and is there"
            return
        bodies = [body for _, body, is_marker in kept.messages if not is_marker]
        places = {sent.body: place for place, sent in enumerate(self.sent)}
        if strange := [body for body in bodies if body not in places]:
            yield f"{self} has what was never sent to it, or is over: {strange}"
            return
        found = [places[body] for body in bodies]
        if found != sorted(set(found)):
            yield f"{self} has its messages twice or not in their order: {found}"
        for place, sent in enumerate(self.sent):
            name = f"{self}: {sent.body[:16]!r}"
            if place in found and sent.is_taken is False:
                yield f"{name} was refused, and is there"
            if place in found and sent.is_gone:
                yield f"{name} was confirmed, and is there"
            may_be_gone = sent.acks or sent.is_gone or self.deleting
            if place not in found and sent.is_taken and not may_be_gone:
                yield f"{name} was taken, and is lost"
            if sent.was_full and found and found[0] < place < found[-1]:
                yield f"{name} was refused by a full queue that took more before it was empty"
        yield from self._compare_marker(kept)
        yield from self._compare_owners(kept)

    def _compare_marker(self, kept: Kept) -> Iterator[str]:
        markers = [place for place, (*_, is_marker) in enumerate(kept.messages) if is_marker]
        if markers not in ([], [len(kept.messages) - 1]):
            yield f"{self} has markers that are not the last: {markers}"
        if bool(markers) != kept.is_full:
            yield f"{self} has {len(markers)} markers, and is_full is {kept.is_full}"
        if self.has_marker and not (markers or self.marker_acks or self.deleting):
            yield f"{self} has lost its marker"

    def _compare_owners(self, kept: Kept) -> Iterator[str]:
        if kept.service not in self.owners:
            yield f"{self} is of the service {kept.service!r}, not {self.owners}"
        if self.renaming:
            return
        if kept.notifier != self.notifier:
            yield f"{self} has the notifier {kept.notifier!r}, not {self.notifier!r}"
        if kept.notifier_service not in self.notifier_owners:
            yield f"{self}: its notifier is of {kept.notifier_service!r}"

    def settle(self, kept: Kept | None) -> None:
        """Go on from what is in the store."""
        self.confirmed.clear()
        if kept is None:
            self.is_deleted = True
            return
        bodies = {body for _, body, is_marker in kept.messages if not is_marker}
        self.over |= {sent.body for sent in self.sent} - bodies
        self.sent = [Sent(sent.body, is_taken=True) for sent in self.sent if sent.body in bodies]
        self.has_marker = any(is_marker for *_, is_marker in kept.messages)
        self.marker_acks, self.unmarked_at = 0, 0
        self.owners, self.notifier_owners = {kept.service}, {kept.notifier_service}
        self.notifier, self.renaming, self.deleting = kept.notifier, False, False

    def __str__(self) -> str:
        return f"queue {self.number}"


@dataclass
class Ledger:
    lines: dict[bytes, Line] = field(default_factory=dict)
    """All queues that ever were, by the recipient's id."""
    by_notifier: dict[bytes, Line] = field(default_factory=dict)
    making: int = 0
    """NEWs that were not answered: each may have left a queue that nobody knows."""
    strangers: set[bytes] = field(default_factory=set)
    """Queues that were found to be such."""
    services: dict[str, bytes] = field(default_factory=dict)
    """The ids of services, as they were first told."""
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def alive(self) -> list[Line]:
        return [line for line in self.lines.values() if not (line.deleting or line.is_deleted)]

    def compare(self, contents: Contents) -> Iterator[str]:
        for line in self.lines.values():
            yield from line.compare(contents.queues.get(line.queue.id))
        strangers = contents.queues.keys() - self.lines.keys() - self.strangers
        if len(strangers) > self.making:
            yield f"{len(strangers)} queues that nobody made; {self.making} may be"
        if any(contents.queues[id].messages for id in strangers):
            yield "a queue that nobody knows has messages"
        for name, id in self.services.items():
            if id not in contents.identities:
                yield f"the service {name} is not known"
        if contents.strays:
            yield f"{contents.strays} messages have no queue"

    def settle(self, contents: Contents) -> None:
        for line in self.lines.values():
            line.settle(contents.queues.get(line.queue.id))
        self.strangers |= contents.queues.keys() - self.lines.keys()
        self.making = 0
