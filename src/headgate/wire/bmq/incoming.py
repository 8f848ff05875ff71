"""Events of a client, as commands of the core: what it posts, confirms and asks for.

Work is bounded in two ways. As much may be under way as a client may have unanswered, in messages
and in bytes; more is taken up when the core answered. And so much is done in a row before other
sessions have their turn, however large the event is and however little of it is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

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
"""Messages and requests of one session that wait for their turn; more are not taken up."""

UNANSWERED_BYTES = 16 * MiB
"""And bytes of those messages; a larger one is alone."""

TAKEN_MAX = 4096
"""Work that is done in a row; then other sessions have their turn. A small message or confirmation
is one, which is two or three microseconds."""
REFUSED_WORK = 4
"""What it takes, besides, to refuse a message or a request."""
WORK_BYTES = 4096
"""So many bytes of a message take as long as a small message; they are copied and summed up."""
PROPERTIES_WORK_BYTES = 64
"""The same of its properties, which are many objects."""

INFLATED_BYTES = 4 * MiB
"""What is inflated in a row, of messages that are refused too; then other sessions have their turn.
Nothing but zeros is the slowest, at about 250 MB a second."""

NO_QUEUE = QueueId(b"")
"""Stands for the queue of a request that names none."""


@value
class Posted:
    """A message under way to its queue."""

    queue: int
    guid: bytes
    wants_ack: bool
    size: int
    """Bytes of its body and properties, about."""


class Incoming:
    """The commands that one client's events become, until the router has taken them.

    Its session owns it: it hands over messages, confirmations and the commands of requests in the
    order in which they came, asks `has_room` and `has_time` before it takes up more, and counts
    `taken` up and `unanswered` down. Commands are submitted in that order; confirmations in a
    row are one command for each app. The core never sees a message that is refused here; its ACK is
    written behind the commands of the same pass.
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
        """What is submitted next."""
        self._confirmed: dict[Stream, list[MessageId]] = {}
        """What is confirmed after that: neighbours are one command for each app."""
        self.refused: list[Ack] = []
        """Messages that the core never saw."""
        self.is_held = False
        """Whether the router had no room for the commands."""
        self.unopened: tuple[Put, QueueId, PayloadDecoder] | None = None
        """A message that is not inflated to its end. Nothing else is taken up before it."""
        self.inflated = 0
        """Bytes that were inflated since others had their turn, or were to be."""
        self.taken = 0
        """What was done since then."""
        self.is_changing = False
        """Whether a queue is being configured or closed. That may take a while, in which others
        have their turn; and until it is closed its numbers are taken."""
        self.unanswered = 0
        """Messages and requests that the core has not answered."""
        self.unanswered_bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether more may be under way."""
        return (
            self.unanswered < UNANSWERED_MAX
            and self.unanswered_bytes < UNANSWERED_BYTES
            and not self.is_held
            and not self.is_changing
            and self._host.takes_answers()
        )

    @property
    def has_time(self) -> bool:
        """Whether more may be taken up before others have their turn."""
        return self.taken < TAKEN_MAX and self.inflated < INFLATED_BYTES

    # To the core.

    def submit(self) -> None:
        """Hand the router all commands since the last time. If it has no room, they are held, and
        nothing more is taken up."""
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
        """Refuse what the core never saw."""
        self._host.write(event(EventType.ACK, encode_acks(self.refused)), 0)
        self.refused = []

    # Requests.

    def add(self, command: core.Command) -> None:
        """Submit a command next, behind what was posted before it."""
        self.commands.append(command)

    def end_confirming(self) -> None:
        """Something else comes, which is to find the messages confirmed."""
        if not self._confirmed:
            return
        for stream, messages in self._confirmed.items():
            self.commands.append(
                core.Confirm(self._session, None, stream.queue, tuple(messages), stream.app)
            )
        self._confirmed = {}

    # Messages and confirmations.

    def take(self, rest: Iterator[Put] | Iterator[Confirmation]) -> bool:
        """As many of an event's messages as there is room and time for; false if some may be
        left. Nothing is written meanwhile, so that answers are taken as when it began."""
        now = self._host.now()
        for message in rest:
            self.taken += 1
            if isinstance(message, Put):
                self._post(message, now)
            else:
                self._confirm(message)
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
        """Inflate as much as may be inflated before others have their turn. Who sends what cannot
        be inflated, or becomes too long, has used up all of it."""
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

    def _confirm(self, each: Confirmation) -> None:
        """Note a confirmation. One of an unknown stream is about nothing: it is in nobody's hands
        any more."""
        stream = self._streams.find(each.queue, each.sub_id)
        if stream is not None:
            confirmed = self._confirmed.get(stream)
            if confirmed is None:
                confirmed = self._confirmed[stream] = []
            confirmed.append(stream.confirmed(each.guid))
