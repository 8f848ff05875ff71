"""Events of a client as commands of the core: messages, confirmations and requests.

Work is bounded in two ways. A client may have so much unanswered, in messages and in bytes; more is
taken up when the core has answered. And so much is done in a row before other sessions get a turn,
however large the event is and however little of it is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import cast

from headgate.core import commands as core
from headgate.core.model.ids import MessageId, QueueId, SessionId
from headgate.core.model.limits import Limits, MiB
from headgate.core.model.message import Message
from headgate.core.model.value import value
from headgate.errors import HeadgateError, Overloaded
from headgate.wire.bmq.codec.frames import EventType, event
from headgate.wire.bmq.codec.messages import (
    ACK_REQUESTED,
    HAS_PROPERTIES,
    Ack,
    Confirmation,
    Put,
    encode_acks,
)
from headgate.wire.bmq.codec.payload import PayloadDecoder, checksum, split_data
from headgate.wire.bmq.errors import BadRequest, ack_status_of
from headgate.wire.bmq.open_queues import Stream, Streams
from headgate.wire.bmq.port import BmqPort

UNANSWERED_MAX = 4096
"""Messages and requests of one session that wait for turns; more are not taken up."""

UNANSWERED_BYTES = 16 * MiB
"""Bytes of those messages; a larger message is taken up alone."""

TAKEN_MAX = 4096
"""Work done in a row; then other sessions get a turn. A small message or confirmation is one unit,
two or three microseconds."""
REFUSED_WORK = 4
"""Additional work of refusing a message or a request."""
WORK_BYTES = 4096
"""Bytes of a message that are as much work as a small message; they are copied and checksummed."""
PROPERTIES_WORK_BYTES = 64
"""The same for its properties, which are many objects."""

INFLATED_BYTES = 4 * MiB
"""Bytes inflated in a row, with those of refused messages; then other sessions get a turn. All
zeros are the slowest, at about 250 MB a second."""

NO_QUEUE = QueueId(b"")
"""Stands for the queue of a request without one."""


@value
class Posted:
    """A message under way to its queue."""

    queue: int
    guid: bytes
    wants_ack: bool
    size: int
    """Bytes of its body and properties, about."""


class Incoming:
    """The commands made of one client's events, until the router has taken them.

    Its session owns it: it adds messages, confirmations and the commands of requests in the order
    in which they came, asks `has_room` and `has_time` before it takes up more, and counts `taken`
    up and `unanswered` down. Commands are submitted in that order; confirmations in a row are one
    command for each app. The core never sees a message that is refused here; its ACK is written
    behind the commands of the same pass.
    """

    __slots__ = (
        "_confirmed",
        "_host",
        "_limits",
        "_session",
        "_streams",
        "commands",
        "inflated",
        "is_changing",
        "is_held",
        "refused",
        "taken",
        "unanswered",
        "unanswered_bytes",
        "unopened",
    )

    def __init__(self, host: BmqPort, session: SessionId, streams: Streams, limits: Limits) -> None:
        self._host = host
        self._session = session
        self._streams = streams
        self._limits = limits
        self.commands: list[core.Command] = []
        """The commands to submit next."""
        self._confirmed: dict[Stream, list[MessageId]] = {}
        """The confirmations after them: consecutive ones are one command for each app."""
        self.refused: list[Ack] = []
        """Messages that were refused here, without the core."""
        self.is_held = False
        """Whether the router had no room for the commands."""
        self.unopened: tuple[Put, QueueId, PayloadDecoder] | None = None
        """A message that is partly inflated. Nothing else is taken up before it."""
        self.inflated = 0
        """Bytes inflated, or requested to be, since others had a turn."""
        self.taken = 0
        """Work done since then."""
        self.is_changing = False
        """Whether a queue is being configured or closed. That may take a while, in which others get
        a turn; and a queue keeps its numbers until it is closed."""
        self.unanswered = 0
        """Messages and requests that the core has not answered."""
        self.unanswered_bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether more requests and messages may be under way."""
        return (
            self.unanswered < UNANSWERED_MAX
            and self.unanswered_bytes < UNANSWERED_BYTES
            and not self.is_held
            and not self.is_changing
            and self._host.takes_answers()
        )

    @property
    def has_time(self) -> bool:
        """Whether more may be taken up before others get a turn."""
        return self.taken < TAKEN_MAX and self.inflated < INFLATED_BYTES

    # Calls to the core.

    def submit(self) -> None:
        """Submit all collected commands. If the router has no room, they are kept, and nothing more
        is taken up."""
        self.end_confirming()
        if not self.commands:
            return
        try:
            self._host.submit(self.commands)
        except Overloaded:
            self.is_held = True
            self._host.again()
        else:
            self.is_held = False
            self.commands = []

    def write_refused(self) -> None:
        """Write the ACKs of messages that were refused here."""
        self._host.write(event(EventType.ACK, encode_acks(self.refused)), 0)
        self.refused = []

    # Requests.

    def add(self, command: core.Command) -> None:
        """Add a command behind the messages posted before it."""
        self.commands.append(command)

    def end_confirming(self) -> None:
        """End a run of confirmations: the next command must find the messages confirmed."""
        if not self._confirmed:
            return
        for stream, messages in self._confirmed.items():
            self.commands.append(
                core.Confirm(self._session, None, stream.queue, tuple(messages), stream.app)
            )
        self._confirmed = {}

    # Messages and confirmations.

    def take(self, rest: Iterator[Put] | Iterator[Confirmation]) -> bool:
        """Take as many of an event's messages as there is room and time for; return false if some
        may be left. Nothing is written meanwhile, so answers are as they were at the start."""
        now = self._host.now()
        for message in rest:
            if isinstance(message, Confirmation):
                return self._confirm(chain((message,), cast("Iterator[Confirmation]", rest)))
            self.taken += 1
            self._post(message, now)
            if (
                self.taken >= TAKEN_MAX
                or self.inflated >= INFLATED_BYTES
                or self.unanswered >= UNANSWERED_MAX
                or self.unanswered_bytes >= UNANSWERED_BYTES
                or self.unopened is not None
            ):
                return False
        return True

    def _post(self, put: Put, now: float) -> None:
        if self._confirmed:
            self.end_confirming()
        size = len(put.data)
        if size >= PROPERTIES_WORK_BYTES:
            self.taken += size // WORK_BYTES
            if put.flags & HAS_PROPERTIES:
                self.taken += min(size, self._limits.properties_bytes) // PROPERTIES_WORK_BYTES
        try:
            self._send(put, now, size)
        except HeadgateError as error:
            self._refuse(put, error)

    def _refuse(self, put: Put, error: HeadgateError) -> None:
        self.taken += REFUSED_WORK
        self._host.refused(self._streams.queue(put.queue) or NO_QUEUE, error)
        self.refused.append(Ack(ack_status_of(error), put.guid, put.queue))

    def _send(self, put: Put, now: float, size: int) -> None:
        queue = self._streams.queue(put.queue)
        if queue is None:
            raise BadRequest("the queue is not open")
        if checksum(put.data) != put.crc:
            raise BadRequest("the checksum is wrong")
        has_properties = put.flags & HAS_PROPERTIES != 0
        # BMQ-71: inflated first, so it is filtered like any other.
        if put.compression:
            opening = PayloadDecoder(
                put.data,
                has_properties=has_properties,
                compression=put.compression,
                schema=put.schema,
                bytes_max=self._limits.body_bytes + self._limits.properties_bytes,
            )
            self.inflate(put, queue, opening)
            return
        properties, body = split_data(put.data, has_properties, put.schema)
        self._accept(put, queue, Message(MessageId(put.guid), body, now, properties), size)

    def inflate(self, put: Put, queue: QueueId, opening: PayloadDecoder) -> None:
        """Inflate as much as allowed before others get a turn. Data that cannot be inflated, or
        becomes too long, uses up all of it."""
        self.unopened = None
        left = max(1, INFLATED_BYTES - self.inflated)
        self.inflated += left
        try:
            inflated = opening.inflate(left)
            if not opening.is_done:
                self.unopened = put, queue, opening
                return
            properties, body = opening.content()
        except HeadgateError as error:
            self._refuse(put, error)
            return
        self.inflated -= left - inflated
        message = Message(MessageId(put.guid), body, self._host.now(), properties)
        self._accept(put, queue, message, message.size)

    def _accept(self, put: Put, queue: QueueId, message: Message, size: int) -> None:
        posted = Posted(put.queue, put.guid, put.flags & ACK_REQUESTED != 0, size)
        self.unanswered += 1
        self.unanswered_bytes += size
        self.commands.append(core.Send(self._session, posted, queue, message))

    def _confirm(self, confirmations: Iterator[Confirmation]) -> bool:
        """Note confirmations as long as there is time. For an unknown stream they are ignored:
        nobody holds its messages any more."""
        queue = app = None
        stream: Stream | None = None
        confirmed: list[MessageId] = []
        for each in confirmations:
            self.taken += 1
            if each.queue != queue or each.sub_id != app:
                queue, app = each.queue, each.sub_id
                stream = self._streams.find(queue, app)
                confirmed = [] if stream is None else self._confirmed.setdefault(stream, [])
            if stream is not None:
                confirmed.append(stream.confirmed(each.guid))
            if self.taken >= TAKEN_MAX:
                return False
        return True
