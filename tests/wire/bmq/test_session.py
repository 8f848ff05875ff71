"""One client's session: what it sends becomes commands, what came of them becomes events."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from headgate.core import commands as core
from headgate.core import effects as e
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Declared, Message, Properties
from headgate.core.model.window import Window
from headgate.errors import (
    BadSubscription,
    ExpressionError,
    HeadgateError,
    LimitReached,
    Prohibited,
    QuotaReached,
    StoreError,
)
from headgate.wire.bmq.codec.control import (
    AdminCommand,
    BrokerResponse,
    Category,
    ClientType,
    CloseQueue,
    CloseQueueResponse,
    ConfigureQueueStream,
    ConfigureQueueStreamResponse,
    ConfigureStream,
    ConfigureStreamResponse,
    ConsumerInfo,
    ConsumerSubscription,
    Content,
    ControlMessage,
    DisconnectRequest,
    DisconnectResponse,
    Expression,
    OpenQueueResponse,
    QueueStreamParameters,
    RoutingConfiguration,
    Status,
    StreamParameters,
    SubIdInfo,
    encode_control,
    encode_negotiation,
)
from headgate.wire.bmq.codec.frames import (
    HEARTBEAT_REQUEST,
    HEARTBEAT_RESPONSE,
    Encoding,
    EventType,
    event,
)
from headgate.wire.bmq.codec.messages import (
    HAS_PROPERTIES,
    OUT_OF_ORDER,
    Ack,
    AckStatus,
    Confirmation,
    Put,
    encode_confirms,
    encode_puts,
    parse_acks,
)
from headgate.wire.bmq.codec.payload import PayloadDecoder, checksum, open_data
from headgate.wire.bmq.errors import BadRequest
from headgate.wire.bmq.incoming import (
    INFLATED_BYTES,
    PROPERTIES_WORK_BYTES,
    REFUSED_WORK,
    TAKEN_MAX,
    UNANSWERED_MAX,
    WORK_BYTES,
)
from headgate.wire.bmq.session import HEARTBEAT_WORK, HELLO_BYTES, REQUEST_WORK
from tests.support.bmq_session import FAN, ME, NOW, SDK, WORK, Peer, guid, open_queue, put

EVERYTHING = QueueStreamParameters(None, 7, 9999, 3, 1)


# The hello.


def test_a_client_that_reads_json_is_answered_in_json() -> None:
    peer = Peer().hello()
    response, encoding = peer.welcomed()
    assert encoding is Encoding.JSON
    assert response.result == Status(Category.SUCCESS)
    assert (response.heartbeat_interval_ms, response.max_missed_heartbeats) == (3000, 10)
    assert "SUBSCRIPTIONS:CONFIGURE_STREAM" in response.broker_identity.features
    assert peer.name == "prog pid 42"


def test_another_client_is_answered_in_ber() -> None:
    peer = Peer().hello(features="PROTOCOL_ENCODING:BER")
    assert peer.welcomed()[1] is Encoding.BER
    peer.open()
    peer.ask(2, AdminCommand("help"))
    assert peer.said()[0].encoding is Encoding.BER


def test_a_broker_is_refused() -> None:
    peer = Peer().hello(client_type=ClientType.TCPBROKER)
    assert peer.welcomed()[0].result.category is Category.REFUSED
    assert peer.closed is not None
    assert peer.closed.startswith("hello refused")


@pytest.mark.parametrize(
    "first",
    [
        event(EventType.PUT, encode_puts([put(1)])),
        HEARTBEAT_REQUEST,
        event(EventType.CONTROL, b"\x30\x80\x00\x00\x04\x04\x04\x04"),
        event(
            EventType.CONTROL,
            encode_negotiation(BrokerResponse(Status(Category.SUCCESS)), Encoding.BER),
        ),
        event(EventType.CONTROL, bytes(HELLO_BYTES)),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["put", "heartbeat", "nothing", "response", "too long", "http"],
)
def test_what_is_no_hello_ends_the_session(first: bytes) -> None:
    peer = Peer()
    peer.session.receive(first)
    assert peer.closed is not None
    assert peer.closed.startswith("malformed")
    assert not peer.said()


# Opening and closing.


@pytest.mark.parametrize(
    ("uri", "sub", "app", "routing", "memory"),
    [
        ("bmq://work/q", 0, "", 2, 300_000),
        ("bmq://fan/q?id=foo", 1, "foo", 10, 300_000),
        ("bmq://news/q", 0, "", 7, 1500),
    ],
    ids=["priority", "fanout", "broadcast"],
)
def test_a_queue_is_opened_by_its_uri(
    uri: str, sub: int, app: str, routing: int, memory: int
) -> None:
    peer = Peer().ready()
    request = open_queue(uri, 5, sub)
    peer.ask(9, request)
    [command] = peer.submitted
    assert isinstance(command, core.Open)
    assert command.queue == uri.partition("?")[0].encode()
    assert (command.session, command.app, command.read, command.write) == (ME, app, True, True)
    assert command.interests == ()
    assert not peer.said()
    peer.done()
    response = OpenQueueResponse(request, RoutingConfiguration(routing), memory)
    assert peer.reply() == ControlMessage(9, response)


def test_reading_and_writing_are_flags() -> None:
    peer = Peer().ready()
    peer.ask(1, open_queue("bmq://work/a", 0, flags=2))
    peer.ask(2, open_queue("bmq://work/b", 1, flags=4))
    reader, writer = peer.take()
    assert isinstance(reader, core.Open)
    assert isinstance(writer, core.Open)
    assert (reader.read, reader.write, writer.read, writer.write) == (True, False, False, True)


@pytest.mark.parametrize(
    ("uri", "queue", "sub", "flags", "category"),
    [
        ("bmq://work", 1, 0, 6, Category.REFUSED),
        ("http://work/q", 1, 0, 6, Category.REFUSED),
        ("bmq://work/other", 1, 0, 0, Category.INVALID_ARGUMENT),
        ("bmq://work/other", 0, 0, 6, Category.INVALID_ARGUMENT),
        ("bmq://work/q", 0, 0, 6, Category.INVALID_ARGUMENT),
        ("bmq://work/q", 1, 0, 6, Category.INVALID_ARGUMENT),
    ],
    ids=["no queue", "no bmq", "no flags", "number taken", "open already", "under another number"],
)
def test_an_open_that_makes_no_sense_is_refused_at_once(
    uri: str, queue: int, sub: int, flags: int, category: Category
) -> None:
    peer = Peer().ready()
    peer.open()
    peer.ask(3, open_queue(uri, queue, sub, flags))
    reply = peer.reply()
    assert reply.request_id == 3
    assert isinstance(reply.content, Status)
    assert reply.content.category is category
    assert not peer.submitted
    assert len(peer.refusals) == 1


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (Prohibited("no domain"), Category.REFUSED),
        (LimitReached("max_queues", 3), Category.REFUSED),
        (StoreError("disk"), Category.NOT_READY),
        (HeadgateError("internal error"), Category.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refused_open_says_why_and_leaves_the_number_free(
    error: HeadgateError, category: Category
) -> None:
    peer = Peer().ready()
    peer.ask(1, open_queue("bmq://nope/q"))
    peer.fail(error)
    assert peer.reply() == ControlMessage(1, Status(category, category, str(error)))
    peer.open("bmq://work/q")


def test_a_closed_queue_leaves_its_numbers_free() -> None:
    peer = Peer().ready()
    handle = peer.open().handle
    peer.ask(4, CloseQueue(handle, True))
    [command] = peer.submitted
    assert isinstance(command, core.Close)
    assert (command.queue, command.app) == (WORK, "")
    peer.done()
    assert peer.reply() == ControlMessage(4, CloseQueueResponse())
    peer.ask(5, CloseQueue(handle, True))
    assert peer.reply().content == Status(
        Category.INVALID_ARGUMENT, Category.INVALID_ARGUMENT, "the queue is not open"
    )
    peer.open("bmq://work/other")


def test_a_queue_may_be_opened_again_right_behind_its_closing() -> None:
    peer = Peer().ready()
    request = peer.open()
    peer.ask(2, CloseQueue(request.handle, True))
    peer.ask(3, request)
    peer.ask(4, ConfigureQueueStream(0, EVERYTHING))
    assert [type(command) for command in peer.submitted] == [core.Close]
    peer.done()
    assert [type(command) for command in peer.submitted] == [core.Open, core.Configure]
    peer.done()
    assert [reply.request_id for reply in peer.replies()] == [2, 3, 4]


def test_who_changes_its_mind_does_it_step_by_step() -> None:
    """Each time much may have to be looked at again, and others have their turn in between."""
    peer = Peer().ready()
    peer.open()
    for number in range(2, 5):
        peer.ask(number, ConfigureQueueStream(0, EVERYTHING))
    for number in range(2, 5):
        assert [type(command) for command in peer.submitted] == [core.Configure]
        peer.done()
        assert peer.reply().request_id == number


def test_apps_of_one_queue_share_its_number() -> None:
    peer = Peer().ready()
    peer.open("bmq://fan/q?id=foo", 3, 1)
    peer.open("bmq://fan/q?id=bar", 3, 2)
    peer.open("bmq://fan/q", 3, 0, flags=4)
    peer.ask(4, CloseQueue(open_queue("bmq://fan/q?id=foo", 3, 1).handle, False))
    peer.done()
    peer.replies()
    peer.put(put(1, queue=3))
    [command] = peer.submitted
    assert isinstance(command, core.Send)
    assert command.queue == FAN


# Configuring.


def test_a_stream_without_expressions_is_one_subscription_for_everything() -> None:
    """S003-25."""
    peer = Peer().ready()
    peer.open()
    request = ConfigureQueueStream(0, EVERYTHING)
    peer.ask(2, request)
    [command] = peer.submitted
    assert isinstance(command, core.Configure)
    assert command.interests == (core.Interest(None, 3, Window(7, 9999)),)
    peer.done()
    assert peer.reply() == ControlMessage(2, ConfigureQueueStreamResponse(request))


def test_no_consumers_is_no_subscription() -> None:
    peer = Peer().ready()
    peer.open("bmq://fan/q?id=foo", 0, 1)
    nothing = QueueStreamParameters(SubIdInfo(1, "foo"), 0, 0, -(2**31), 0)
    peer.ask(2, ConfigureQueueStream(0, nothing))
    [command] = peer.submitted
    assert isinstance(command, core.Configure)
    assert (command.app, command.interests) == ("foo", ())


def subscribed(*texts: str | None) -> ConfigureStream:
    """Subscriptions with the numbers 10, 11, ..."""
    return ConfigureStream(
        0,
        StreamParameters(
            "__default",
            tuple(
                ConsumerSubscription(
                    10 + place,
                    Expression(0, "") if text is None else Expression(1, text),
                    (ConsumerInfo(7, 9999, place, 1),),
                )
                for place, text in enumerate(texts)
            ),
        ),
    )


def test_subscriptions_have_expressions_priorities_and_windows() -> None:
    """S003-21, S003-22."""
    peer = Peer().ready()
    peer.open()
    request = subscribed("x > 1", None)
    peer.ask(2, request)
    [command] = peer.submitted
    assert isinstance(command, core.Configure)
    assert command.interests == (
        core.Interest("x > 1", 0, Window(7, 9999)),
        core.Interest(None, 1, Window(7, 9999)),
    )
    peer.done()
    assert peer.reply() == ControlMessage(2, ConfigureStreamResponse(request))


def test_an_empty_text_is_an_expression_and_a_wrong_one() -> None:
    """BMQ-3."""
    peer = Peer().ready()
    peer.open()
    peer.ask(2, subscribed(""))
    [command] = peer.submitted
    assert isinstance(command, core.Configure)
    assert command.interests[0].expression == ""
    error = ExpressionError("SYNTAX", "syntax error", "", 0)
    peer.fail(BadSubscription(error))
    assert peer.reply().content == Status(
        Category.INVALID_ARGUMENT, Category.INVALID_ARGUMENT, "syntax error at offset 0"
    )


def wrong(subscription: ConsumerSubscription) -> ConfigureStream:
    return ConfigureStream(0, StreamParameters("__default", (subscription,)))


CONSUMERS = (ConsumerInfo(1, 1, 0, 1),)


@pytest.mark.parametrize(
    "request_",
    [
        wrong(ConsumerSubscription(1, Expression(2, "x > 1"), CONSUMERS)),
        wrong(ConsumerSubscription(1, Expression(0, "x > 1"), CONSUMERS)),
        wrong(ConsumerSubscription(1, Expression(0, ""), (ConsumerInfo(-1, 1, 0, 1),))),
        wrong(ConsumerSubscription(1, Expression(0, ""), (ConsumerInfo(1, 1, 2**31, 1),))),
        ConfigureStream(1, StreamParameters("__default", ())),
        ConfigureStream(0, StreamParameters("foo", ())),
        ConfigureQueueStream(1, EVERYTHING),
        ConfigureQueueStream(0, replace(EVERYTHING, sub_id_info=SubIdInfo(1, "foo"))),
        ConfigureQueueStream(0, replace(EVERYTHING, max_unconfirmed_bytes=-1)),
    ],
    ids=[
        "version", "no version", "window", "priority", "queue", "app", "old queue", "old app",
        "old window",
    ],
)  # fmt: skip
def test_a_configure_that_makes_no_sense_is_refused_at_once(request_: Content) -> None:
    peer = Peer().ready()
    peer.open()
    peer.ask(2, request_)
    content = peer.reply().content
    assert isinstance(content, Status)
    assert content.category is Category.INVALID_ARGUMENT
    assert not peer.submitted


# Posting.


def test_a_message_is_posted_with_its_properties() -> None:
    """S003-4, BMQ-14."""
    peer = Peer().ready()
    peer.open()
    properties = Declared({"n": 5, "s": "ab"}, bytes([3, 6]))
    peer.put(put(1, b"hello", properties))
    [command] = peer.submitted
    assert isinstance(command, core.Send)
    assert command.message == Message(MessageId(guid(1)), b"hello", NOW, {"n": 5, "s": "ab"})
    kept = command.message.properties
    assert isinstance(kept, Declared)
    assert kept.types == bytes([3, 6])
    peer.done()
    assert peer.acks() == [Ack(AckStatus.SUCCESS, guid(1), 0)]


def test_who_asked_for_no_acknowledgement_gets_none() -> None:
    peer = Peer().ready()
    peer.open()
    peer.put(put(1, flags=0), put(2), put(3, flags=0))
    peer.done()
    assert peer.acks() == [Ack(AckStatus.SUCCESS, guid(2), 0)]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QuotaReached("queue", "messages", 1), AckStatus.LIMIT_MESSAGES),
        (QuotaReached("domain", "bytes", 1), AckStatus.LIMIT_BYTES),
        (StoreError("disk"), AckStatus.STORAGE_FAILURE),
        (Prohibited("not open for writing"), AckStatus.UNKNOWN),
    ],
    ids=["messages", "bytes", "store", "other"],
)
@pytest.mark.parametrize("flags", [0, 1])
def test_who_asked_for_none_is_told_of_a_failure(
    error: HeadgateError, status: AckStatus, flags: int
) -> None:
    """BMQ-82, BMQ-84."""
    peer = Peer().ready()
    peer.open()
    peer.put(put(1, flags=flags))
    peer.fail(error)
    assert peer.acks() == [Ack(status, guid(1), 0)]


def test_what_is_damaged_is_refused_and_its_neighbours_are_not() -> None:
    peer = Peer().ready()
    peer.open()
    peer.put(
        put(1),
        replace(put(2), crc=0),
        replace(put(3), queue=8),
        replace(put(4), compression=5),
        replace(put(5), flags=HAS_PROPERTIES),
        put(6),
    )
    assert [ack.guid for ack in peer.acks()] == [guid(n) for n in (2, 3, 4, 5)]
    assert [queue for queue, _ in peer.refusals] == [WORK, QueueId(b""), WORK, WORK]
    sent = [c.message.id for c in peer.submitted if isinstance(c, core.Send)]
    assert sent == [guid(1), guid(6)]
    assert peer.closed is None


# Deliveries.


def deliver(number: int, place: int = 0, attempts: int = 0, app: str = "") -> e.Deliver:
    message = Message(MessageId(guid(number)), b"body", NOW, {"x": number})
    queue = FAN if app else WORK
    return e.Deliver(ME, queue, message, app=app, interests=(place,), attempts=attempts)


def test_messages_carry_the_number_of_their_subscription() -> None:
    peer = Peer().ready()
    peer.open()
    peer.ask(2, subscribed("x > 1", None))
    peer.done()
    peer.replies()
    peer.session.write_effects([deliver(1, 1), deliver(2, 0, attempts=1)])
    first, second = peer.pushes()
    assert (first.queue, first.guid, first.subscriptions) == (0, guid(1), (11,))
    assert first.flags == HAS_PROPERTIES
    assert (second.subscriptions, second.flags) == ((10,), HAS_PROPERTIES | OUT_OF_ORDER)
    opened = open_data(
        first.data, has_properties=True, compression=0, schema=first.schema, bytes_max=100
    )
    assert opened == ({"x": 1}, b"body")


def test_a_configure_is_answered_between_what_came_before_and_after_it() -> None:
    """The numbers are those of the last configure that the client has seen answered."""
    peer = Peer().ready()
    peer.open()
    peer.ask(2, subscribed("x > 1"))
    peer.done()
    peer.replies()
    again = subscribed("x > 1")
    [old] = again.stream.subscriptions
    renumbered = ConfigureStream(0, StreamParameters("__default", (replace(old, s_id=77),)))
    peer.ask(3, renumbered)
    [command] = peer.take()
    assert isinstance(command, core.Configure)
    peer.session.write_effects([deliver(1), e.Done(ME, command.ref), deliver(2)])
    said = peer.said()
    assert [each.type for each in said] == [EventType.PUSH, EventType.CONTROL, EventType.PUSH]
    assert b"\x00\x00\x00\x0a" in bytes(said[0].body)
    assert b"\x00\x00\x00\x4d" in bytes(said[2].body)


def test_a_message_that_came_by_another_way_has_a_name_of_the_right_length() -> None:
    peer = Peer().ready()
    peer.open()
    peer.ask(2, subscribed(None))
    peer.done()
    peer.replies()
    message = Message(MessageId(b"row 7"), b"body", NOW)
    peer.session.write_effects([e.Deliver(ME, WORK, message, interests=(0,))])
    [push] = peer.pushes()
    assert len(push.guid) == 16
    peer.confirm(Confirmation(0, push.guid, 0))
    assert peer.take() == [core.Confirm(ME, None, WORK, (MessageId(b"row 7"),))]


def test_confirms_of_one_app_are_one_command() -> None:
    peer = Peer().ready()
    peer.open("bmq://fan/q?id=foo", 3, 1)
    peer.open("bmq://fan/q?id=bar", 3, 2)
    peer.confirm(
        Confirmation(3, guid(1), 1),
        Confirmation(3, guid(1), 2),
        Confirmation(3, guid(2), 1),
        Confirmation(3, guid(3), 9),
        Confirmation(4, guid(3), 1),
    )
    assert peer.take() == [
        core.Confirm(ME, None, FAN, (MessageId(guid(1)), MessageId(guid(2))), "foo"),
        core.Confirm(ME, None, FAN, (MessageId(guid(1)),), "bar"),
    ]


# Room.


def test_a_huge_event_is_taken_up_as_far_as_there_is_room() -> None:
    peer = Peer().ready()
    peer.open()
    many = UNANSWERED_MAX * 2 + 100
    peer.put(*(put(number) for number in range(many)))
    seen = []
    while peer.submitted:
        assert len(peer.submitted) <= UNANSWERED_MAX
        seen += [c.message.id for c in peer.submitted if isinstance(c, core.Send)]
        peer.done()
    assert seen == [guid(number) for number in range(many)]
    assert not peer.is_paused


def test_while_work_is_left_nothing_is_read() -> None:
    peer = Peer().ready()
    peer.open()
    peer.put(*(put(number) for number in range(UNANSWERED_MAX + 1)))
    assert peer.is_paused
    peer.done()
    assert not peer.is_paused


def test_what_the_router_has_no_room_for_is_submitted_again() -> None:
    peer = Peer().ready()
    peer.open()
    peer.is_overloaded = True
    peer.put(put(1))
    assert peer.is_paused
    assert peer.asked_again == 1
    peer.session.go_on()
    assert (peer.submitted, peer.asked_again) == ([], 2)
    peer.is_overloaded = False
    peer.session.go_on()
    assert [type(command) for command in peer.submitted] == [core.Send]
    assert not peer.is_paused


class Inflated:
    """Counts what sessions inflate."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        inflate = PayloadDecoder.inflate

        def counted(opening: PayloadDecoder, most: int) -> int:
            before = opening._size
            try:
                return inflate(opening, most)
            finally:
                self.bytes += opening._size - before

        monkeypatch.setattr(PayloadDecoder, "inflate", counted)

    def taken(self) -> int:
        taken, self.bytes = self.bytes, 0
        return taken


def compressed(number: int, data: bytes) -> Put:
    small = zlib.compress(data)
    return replace(put(number), data=small, crc=checksum(small), compression=1)


def test_messages_that_become_too_long_leave_others_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A few bytes become many; no more of them in a row than of others, and no more of one
    than a body may have."""
    inflated = Inflated(monkeypatch)
    peer = Peer().ready()
    peer.open()
    bytes_max = Limits().body_bytes + Limits().properties_bytes
    bombs = [compressed(number, bytes(bytes_max + 100)) for number in range(5)]
    peer.put(*bombs, put(5))
    slices = [inflated.taken()]
    while len(peer.refusals) < 5:
        assert peer.is_paused
        peer.session.go_on()
        slices.append(inflated.taken())
    assert max(slices) <= INFLATED_BYTES
    assert sum(slices) <= 5 * (bytes_max + 1)
    assert len(slices) >= 5 * (bytes_max // INFLATED_BYTES)
    told = [ack.guid for said in peer.said() for ack in parse_acks(said.body)]
    assert told == [guid(n) for n in range(5)]
    peer.session.go_on()
    assert [c.message.id for c in peer.submitted if isinstance(c, core.Send)] == [guid(5)]
    assert not peer.is_paused


def test_long_messages_are_opened_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And come whole, in their order, with what stands between them."""
    inflated = Inflated(monkeypatch)
    peer = Peer().ready()
    peer.open()
    long = [bytes([n]) * (INFLATED_BYTES + 1000 * n) for n in range(3)]
    peer.put(compressed(0, long[0]), put(10), compressed(1, long[1]), compressed(2, long[2]))
    while peer.is_paused:
        assert inflated.taken() <= INFLATED_BYTES
        peer.session.go_on()
    sent = [c.message for c in peer.submitted if isinstance(c, core.Send)]
    assert [m.id for m in sent] == [guid(n) for n in (0, 10, 1, 2)]
    assert [m.body for m in sent if m.id != guid(10)] == long


@pytest.mark.parametrize("compression", [0, 1])
def test_a_compressed_message_is_as_good_as_a_plain_one(compression: int) -> None:
    """BMQ-71: it has the body and the properties of what was compressed."""
    peer = Peer().ready()
    peer.open()
    plain = put(1)
    peer.put(compressed(1, plain.data) if compression else plain)
    while peer.is_paused:
        peer.session.go_on()
    [sent] = [c.message for c in peer.submitted if isinstance(c, core.Send)]
    assert (sent.id, sent.body) == (guid(1), plain.data)


def test_data_that_cannot_be_inflated_leaves_others_their_turn() -> None:
    """How much of it was inflated before that was found out is not known."""
    peer = Peer().ready()
    peer.open()
    damaged = zlib.compress(bytes(1000))[:-4] + b"oops"
    wrong = replace(put(1), data=damaged, crc=checksum(damaged), compression=1)
    peer.put(wrong, replace(wrong, guid=guid(2)), put(3))
    assert len(peer.refusals) == 1
    peer.session.go_on()
    assert len(peer.refusals) == 2
    peer.session.go_on()
    assert [c.message.id for c in peer.submitted if isinstance(c, core.Send)] == [guid(3)]


def test_a_flood_of_confirms_leaves_others_their_turn() -> None:
    peer = Peer().ready()
    peer.open()
    peer.confirm(*(Confirmation(0, guid(number), 0) for number in range(TAKEN_MAX + 1)))
    [first] = peer.take()
    assert isinstance(first, core.Confirm)
    assert len(first.messages) == TAKEN_MAX
    assert peer.asked_again == 1
    assert peer.is_paused
    peer.session.go_on()
    [last] = peer.take()
    assert isinstance(last, core.Confirm)
    assert last.messages == (guid(TAKEN_MAX),)
    assert not peer.is_paused


def test_a_flood_of_requests_leaves_others_their_turn() -> None:
    """And is answered in its order."""
    peer = Peer().ready()
    many = TAKEN_MAX // REQUEST_WORK
    requests = [ControlMessage(number, AdminCommand("a")) for number in range(many)]
    bodies = [encode_control(request, Encoding.BER) for request in requests]
    peer.session.receive(b"".join(event(EventType.CONTROL, body) for body in bodies))
    slices = []
    while True:
        slices.append([reply.request_id for reply in peer.replies()])
        if not peer.is_paused:
            break
        peer.session.go_on()
    assert max(map(len, slices)) <= TAKEN_MAX // (REQUEST_WORK + REFUSED_WORK) + 1
    assert [number for each in slices for number in each] == list(range(many))
    assert peer.asked_again == len(slices) - 1


def test_a_flood_of_heartbeats_leaves_others_their_turn() -> None:
    peer = Peer().ready()
    many = TAKEN_MAX // HEARTBEAT_WORK
    peer.session.receive(HEARTBEAT_REQUEST * (many + 5))
    assert len(peer.said()) == many
    peer.session.go_on()
    assert len(peer.said()) == 5
    assert not peer.is_paused


@pytest.mark.parametrize("features", ["", SDK], ids=["BER", "JSON"])
def test_a_long_request_is_read_a_part_at_a_time(features: str) -> None:
    """And its answer, which repeats it, is written so; what comes behind it has to wait."""
    peer = Peer()
    _, encoding = peer.hello(features).welcomed()
    peer.open()
    request = subscribed(*(f"x == {number}" for number in range(3000)))
    body = encode_control(ControlMessage(2, request), encoding)
    behind = event(EventType.PUT, encode_puts([put(1)]))
    peer.session.receive(event(EventType.CONTROL, body, encoding) + behind)
    slices = 1
    while not peer.submitted:
        assert peer.asked_again == slices
        peer.session.go_on()
        slices += 1
    assert slices > 3
    [command] = peer.submitted
    assert isinstance(command, core.Configure)
    assert len(command.interests) == 3000
    peer.done()
    assert peer.reply() == ControlMessage(2, ConfigureStreamResponse(request))
    assert [type(command) for command in peer.submitted] == [core.Send]


def test_a_long_request_that_is_refused_is_answered_with_why() -> None:
    peer = Peer().ready()
    peer.open()
    peer.ask(2, subscribed(*("x ==" for _ in range(3000))))
    while not peer.submitted:
        peer.session.go_on()
    peer.fail(LimitReached("subscriptions_per_app", 1))
    assert isinstance(peer.reply().content, Status)


def test_large_messages_leave_others_their_turn() -> None:
    peer = Peer().ready()
    peer.open()
    many, size = 8, TAKEN_MAX * WORK_BYTES // 4
    event_ = event(EventType.PUT, encode_puts([put(n, bytes(size)) for n in range(many)]))
    peer.session.receive(event_)
    assert 1 < len(peer.submitted) <= 4


def test_messages_with_many_properties_leave_others_their_turn() -> None:
    peer = Peer().ready()
    peer.open()
    properties: Properties = {f"p{n}": "v" * 20 for n in range(255)}
    one = put(0, properties=properties)
    most = TAKEN_MAX // (len(one.data) // PROPERTIES_WORK_BYTES) + 1
    peer.put(*(replace(one, guid=guid(number)) for number in range(3 * most)))
    assert len(peer.submitted) <= most
    assert peer.asked_again


def test_messages_that_are_refused_leave_others_their_turn() -> None:
    peer = Peer().ready()
    peer.put(*(put(number) for number in range(TAKEN_MAX)))
    assert len(peer.refusals) <= TAKEN_MAX // REFUSED_WORK


def test_confirms_come_before_what_was_sent_after_them() -> None:
    """They make room for it."""
    peer = Peer().ready()
    peer.open()
    both = encode_confirms([Confirmation(0, guid(1), 0)])
    post = event(EventType.PUT, encode_puts([put(2)]))
    peer.session.receive(event(EventType.CONFIRM, both) + post + post)
    assert [type(command) for command in peer.take()] == [core.Confirm, core.Send, core.Send]


def test_large_messages_wait_for_those_before_them() -> None:
    peer = Peer(Limits()).ready()
    peer.open()
    body = bytes(10 << 20)
    for number in range(3):
        peer.put(put(number, body))
    assert len(peer.submitted) == 2
    peer.done()
    assert len(peer.submitted) == 1


# The end.


def test_a_goodbye_is_answered_when_everything_is() -> None:
    peer = Peer().ready()
    peer.open()
    peer.put(put(1))
    peer.ask(8, DisconnectRequest())
    assert not peer.said()
    assert peer.session.has_left
    peer.put(put(2))
    assert [type(command) for command in peer.submitted] == [core.Send, core.Disconnect]
    peer.done()
    ack, control = peer.said()
    assert ack.type == EventType.ACK
    assert control.type == EventType.CONTROL
    assert peer.closed is None


def test_a_goodbye_of_an_idle_client_is_answered_at_once() -> None:
    peer = Peer().ready()
    assert not peer.session.has_left
    peer.ask(8, DisconnectRequest())
    assert peer.reply() == ControlMessage(8, DisconnectResponse())


def test_a_heartbeat_is_answered() -> None:
    peer = Peer().ready()
    peer.session.receive(HEARTBEAT_REQUEST + HEARTBEAT_RESPONSE)
    assert [said.type for said in peer.said()] == [EventType.HEARTBEAT_RSP]


def test_what_the_router_cannot_do_is_said() -> None:
    peer = Peer().ready()
    peer.ask(6, AdminCommand("help"))
    reply = peer.reply()
    assert reply.request_id == 6
    assert isinstance(reply.content, Status)
    assert reply.content.category is Category.NOT_SUPPORTED


@pytest.mark.parametrize(
    "sent",
    [
        event(EventType.PUSH, b""),
        event(9, bytes(8)),
        event(EventType.PUT, bytes(35)),
        event(EventType.CONFIRM, b"\x16\x00\x00\x00" + bytes(23)),
        event(EventType.CONTROL, b"\x30\x80\x80\x01\x01"),
    ],
    ids=["push", "cluster", "put", "confirm", "control"],
)
def test_what_a_client_never_says_ends_the_session(sent: bytes) -> None:
    peer = Peer().ready()
    peer.open()
    peer.session.receive(sent)
    assert peer.closed is not None
    assert peer.closed.startswith("malformed")


def test_a_response_is_not_a_request() -> None:
    peer = Peer().ready()
    peer.ask(1, DisconnectResponse())
    assert peer.closed is not None
    assert peer.closed.startswith("malformed")


def test_refusals_of_the_wire_are_counted() -> None:
    peer = Peer().ready()
    peer.put(put(1))
    [(queue, error)] = peer.refusals
    assert queue == b""
    assert isinstance(error, BadRequest)
