"""Control messages are read and written in BER and in JSON, and mean the same in both."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.bmq_control import check
from headgate.wire.bmq.codec.control import (
    CONTROL_BYTES_MAX,
    AdminCommand,
    AdminCommandResponse,
    BrokerResponse,
    Category,
    ClientIdentity,
    ClientType,
    CloseQueue,
    CloseQueueResponse,
    ConfigureQueueStream,
    ConfigureQueueStreamResponse,
    ConfigureStream,
    ConfigureStreamResponse,
    ConsumerInfo,
    ConsumerSubscription,
    ControlMessage,
    DisconnectRequest,
    DisconnectResponse,
    Expression,
    GuidInfo,
    HandleParameters,
    Language,
    Negotiation,
    OpenQueue,
    OpenQueueResponse,
    QueueStreamParameters,
    RoutingConfiguration,
    Status,
    StreamParameters,
    SubIdInfo,
    Unknown,
)
from headgate.wire.bmq.codec.control_encoding import (
    CONTENT,
    NEGOTIATION,
    decode_control,
    decode_negotiation,
    encode_control,
    encode_negotiation,
)
from headgate.wire.bmq.codec.fields import shape
from headgate.wire.bmq.codec.frames import Encoding, EventType, Malformed, event, pad, unpad
from headgate.wire.bmq.codec.json import ITEMS_MAX, MEMBERS_MAX
from tests.support.bmq_examples import (
    CONFIGURE,
    CONFIGURE_BYTES,
    HELLO,
    HELLO_BYTES,
    OPEN,
    OPEN_BYTES,
    OPENED,
    OPENED_JSON,
    REPLY,
    REPLY_JSON,
    STREAM,
    STREAM_BYTES,
)
from tests.support.repository import CORPORA

CORPUS = CORPORA / "bmq_control"

HANDLE = HandleParameters("bmq://d/q", 4, None, 6, 1, 1, 0)
HANDLE_JSON = '{"uri":"bmq://d/q","qId":4,"flags":6,"readCount":1,"writeCount":1,"adminCount":0}'


def in_json(text: str) -> bytes:
    return pad(text.encode())


def test_the_hello_of_a_client_has_its_bytes() -> None:
    assert decode_negotiation(HELLO_BYTES[8:], Encoding.BER) == HELLO
    assert event(EventType.CONTROL, encode_negotiation(HELLO, Encoding.BER)) == HELLO_BYTES


def test_the_answer_to_a_hello_has_its_text() -> None:
    assert decode_negotiation(in_json(REPLY_JSON), Encoding.JSON) == REPLY
    assert encode_negotiation(REPLY, Encoding.JSON) == in_json(REPLY_JSON)


def test_a_short_identity_is_filled_up() -> None:
    text = (
        '{"brokerResponse":{"result":{"category":"E_SUCCESS"},"brokerIdentity":{"protocolVersion":1'
        ',"clientType":"E_TCPBROKER","features":"F:A","guidInfo":{}}}}'
    )
    assert decode_negotiation(in_json(text), Encoding.JSON) == BrokerResponse(
        Status(Category.SUCCESS),
        broker_identity=ClientIdentity(client_type=ClientType.TCPBROKER, features="F:A"),
    )


def test_the_name_of_newer_clients_is_read_and_written_only_if_there_is_one() -> None:
    named = ClientIdentity(user_agent="py/2")
    encoded = encode_negotiation(named, Encoding.BER)
    assert bytes.fromhex("8c04") + b"py/2" in encoded
    assert decode_negotiation(encoded, Encoding.BER) == named
    assert b"\x8c" not in encode_negotiation(ClientIdentity(), Encoding.BER)
    assert b"userAgent" not in encode_negotiation(ClientIdentity(), Encoding.JSON)
    assert b'"userAgent":"py/2"' in encode_negotiation(named, Encoding.JSON)


REQUESTS = {
    "openQueue": (OPEN, OPEN_BYTES),
    "configureQueueStream": (CONFIGURE, CONFIGURE_BYTES),
    "configureStream": (STREAM, STREAM_BYTES),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_have_their_bytes(name: str) -> None:
    """S003-25: what the client sends that knows nothing of subscriptions, and what carries them."""
    message, data = REQUESTS[name]
    assert decode_control(data[8:], Encoding.BER) == message
    assert decode_control(memoryview(data)[8:], Encoding.BER) == message
    assert event(EventType.CONTROL, encode_control(message, Encoding.BER)) == data


def test_the_response_to_an_opening_has_its_text() -> None:
    assert decode_control(in_json(OPENED_JSON), Encoding.JSON) == OPENED
    assert encode_control(OPENED, Encoding.JSON) == in_json(OPENED_JSON)


TEXTS = {
    '{"rId":5,"status":{"category":"E_REFUSED","code":-1,"message":"no"}}': ControlMessage(
        5, Status(Category.REFUSED, -1, "no")
    ),
    '{"rId":6,"closeQueue":{"handleParameters":' + HANDLE_JSON + ',"isFinal":true}}': (
        ControlMessage(6, CloseQueue(HANDLE, True))
    ),
    '{"rId":7,"closeQueueResponse":{}}': ControlMessage(7, CloseQueueResponse()),
    '{"rId":8,"disconnect":{}}': ControlMessage(8, DisconnectRequest()),
    '{"rId":8,"disconnectResponse":{}}': ControlMessage(8, DisconnectResponse()),
    '{"disconnect":{}}': ControlMessage(None, DisconnectRequest()),
    '{"rId":9,"adminCommand":{"command":"HELP"}}': ControlMessage(9, AdminCommand("HELP")),
    '{"rId":9,"adminCommandResponse":{"text":"\u00e9"}}': ControlMessage(
        9, AdminCommandResponse("é")
    ),
    '{"rId":3,"configureQueueStreamResponse":{"request":{"qId":4,"streamParameters":'
    '{"maxUnconfirmedMessages":0,"maxUnconfirmedBytes":0,"consumerPriority":-2147483648,'
    '"consumerPriorityCount":0}}}}': ControlMessage(
        3, ConfigureQueueStreamResponse(ConfigureQueueStream(4, QueueStreamParameters(None)))
    ),
    '{"rId":3,"configureStreamResponse":{"request":{"qId":4,"streamParameters":{"appId":"a",'
    '"subscriptions":[{"sId":1,"expression":{"version":"E_VERSION_1","text":"x > 1"},"consumers":'
    '[{"maxUnconfirmedMessages":1,"maxUnconfirmedBytes":2,"consumerPriority":3,'
    '"consumerPriorityCount":4}]}]}}}}': ControlMessage(
        3,
        ConfigureStreamResponse(
            ConfigureStream(
                4,
                StreamParameters(
                    "a",
                    (ConsumerSubscription(1, Expression(1, "x > 1"), (ConsumerInfo(1, 2, 3, 4),)),),
                ),
            )
        ),
    ),
}


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_messages_have_their_text(text: str) -> None:
    assert decode_control(in_json(text), Encoding.JSON) == TEXTS[text]
    assert encode_control(TEXTS[text], Encoding.JSON) == in_json(text)


int64 = st.integers(-(2**63), 2**63 - 1)
ids = st.integers(-(2**31), 2**31 - 1)
texts = st.text(max_size=20) | st.sampled_from(["x" * 127, "x" * 128, "x" * 300])
guid_infos = st.builds(GuidInfo, texts, int64)
identities = st.builds(
    ClientIdentity,
    int64,
    int64,
    st.sampled_from(ClientType),
    texts,
    int64,
    int64,
    texts,
    texts,
    texts,
    int64,
    st.sampled_from(Language),
    guid_infos,
    texts,
)
statuses = st.builds(Status, st.sampled_from(Category), int64, texts)
responses = st.builds(
    BrokerResponse, statuses, int64, int64, st.booleans(), identities, int64, int64
)
sub_ids = st.none() | st.builds(SubIdInfo, ids, texts)
handles = st.builds(HandleParameters, texts, ids, sub_ids, int64, int64, int64, int64)
opens = st.builds(OpenQueue, handles)
streams = st.builds(
    ConfigureQueueStream,
    ids,
    st.builds(QueueStreamParameters, sub_ids, int64, int64, int64, int64),
)
consumers = st.lists(st.builds(ConsumerInfo, int64, int64, int64, int64), max_size=2).map(tuple)
expressions = st.builds(Expression, st.sampled_from([0, 1]) | int64, texts)
subscriptions = st.lists(st.builds(ConsumerSubscription, ids, expressions, consumers), max_size=3)
configurations = st.builds(
    ConfigureStream, ids, st.builds(StreamParameters, texts, subscriptions.map(tuple))
)
contents = st.one_of(
    statuses,
    st.builds(DisconnectRequest),
    st.builds(DisconnectResponse),
    st.builds(AdminCommand, texts),
    st.builds(AdminCommandResponse, texts),
    opens,
    st.builds(OpenQueueResponse, opens, st.builds(RoutingConfiguration, int64), int64),
    st.builds(CloseQueue, handles, st.booleans()),
    st.builds(CloseQueueResponse),
    streams,
    st.builds(ConfigureQueueStreamResponse, streams),
    configurations,
    st.builds(ConfigureStreamResponse, configurations),
)
messages = st.builds(ControlMessage, st.none() | ids, contents)


@pytest.mark.parametrize("encoding", Encoding, ids=lambda encoding: encoding.name)
@given(messages)
def test_control_messages_come_back(encoding: Encoding, message: ControlMessage) -> None:
    body = encode_control(message, encoding)
    assert len(body) % 4 == 0
    assert decode_control(body, encoding) == message


@pytest.mark.parametrize("encoding", Encoding, ids=lambda encoding: encoding.name)
@given(identities | responses)
def test_negotiations_come_back(encoding: Encoding, message: Negotiation) -> None:
    body = encode_negotiation(message, encoding)
    assert len(body) % 4 == 0
    assert decode_negotiation(body, encoding) == message


def test_numbers_are_read_with_their_enumerations() -> None:
    found = decode_control(in_json('{"status":{"category":-6}}'), Encoding.JSON)
    assert found.content == Status(Category.REFUSED)
    assert isinstance(found.content, Status)
    assert found.content.category is Category.REFUSED
    hello = decode_negotiation(HELLO_BYTES[8:], Encoding.BER)
    assert isinstance(hello, ClientIdentity)
    assert hello.client_type is ClientType.TCPCLIENT
    assert hello.sdk_language is Language.CPP


@pytest.mark.parametrize("version", [-1, 2, 100])
def test_an_unknown_version_of_expressions_is_kept(version: int) -> None:
    """It is for others to refuse it."""
    stream = StreamParameters("a", (ConsumerSubscription(1, Expression(version, "x"), ()),))
    message = ControlMessage(1, ConfigureStream(0, stream))
    for encoding in Encoding:
        assert decode_control(encode_control(message, encoding), encoding) == message


def test_unknown_members_are_ignored() -> None:
    text = '{"rId":1,"adminCommand":{"command":"x","new":[{"deep":[1,2,null]}],"other":1.5}}'
    found = decode_control(in_json(text), Encoding.JSON)
    assert found == ControlMessage(1, AdminCommand("x"))


def test_a_part_that_is_null_is_absent() -> None:
    text = '{"openQueue":{"handleParameters":{"uri":"u","qId":1,"subIdInfo":null,"flags":2}}}'
    found = decode_control(in_json(text), Encoding.JSON)
    assert found.content == OpenQueue(HandleParameters("u", 1, None, 2))


UNKNOWN_BER = {
    "clusterMessage": "3080 800107 a180 a980 a080 8001ff 0000 0000 0000 0000",
    "selection 3": "3080 800107 a180 a300 0000 0000",
    "selection 30": "3080 800107 a180 9e0178 0000 0000",
    "selection None": "3080 800107 a180 bf2a80 0000 0000 0000",
}


@pytest.mark.parametrize("name", UNKNOWN_BER)
def test_what_this_wire_has_no_use_for_is_skipped_in_ber(name: str) -> None:
    body = pad(bytes.fromhex(UNKNOWN_BER[name]))
    assert decode_control(body, Encoding.BER) == ControlMessage(7, Unknown(name))
    with pytest.raises(Malformed):
        decode_control(pad(bytes.fromhex(UNKNOWN_BER[name])[:-5] + bytes(4)), Encoding.BER)


@pytest.mark.parametrize(
    "items",
    [
        ",".join(f'"{n}":1' for n in range(MEMBERS_MAX + 1)),
        '"l":[' + "1," * ITEMS_MAX + "1]",
        '"l":[' + "[]," * (ITEMS_MAX // 2) + "1]",
    ],
    ids=["members", "numbers", "arrays"],
)
def test_json_of_too_many_members_is_not_read(items: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be read in one go."""
    monkeypatch.delattr("json.loads")
    with pytest.raises(Malformed, match="too many"):
        decode_control(in_json('{"rId":1,"openQueue":{' + items + "}}"), Encoding.JSON)


def test_what_this_wire_has_no_use_for_is_skipped_in_json() -> None:
    text = '{"rId":7,"clusterMessage":{"anything":[1]}}'
    expected = ControlMessage(7, Unknown("clusterMessage"))
    assert decode_control(in_json(text), Encoding.JSON) == expected


WRONG_JSON = {
    "nothing": "",
    "no JSON": "{",
    "two texts": "{}{}",
    "an array": "[]",
    "a number": "1",
    "no selection": "{}",
    "a number of a request only": '{"rId":1}',
    "two selections": '{"disconnect":{},"disconnectResponse":{}}',
    "a known and an unknown selection": '{"disconnect":{},"x":{}}',
    "a selection that is no object": '{"disconnect":[]}',
    "a selection that is null": '{"disconnect":null}',
    "a request of text": '{"rId":"1","disconnect":{}}',
    "a request of truth": '{"rId":true,"disconnect":{}}',
    "a request of a fraction": '{"rId":1.0,"disconnect":{}}',
    "a request that is not a number": '{"rId":NaN,"disconnect":{}}',
    "a request over 32 bits": '{"rId":2147483648,"disconnect":{}}',
    "a number of many digits": '{"rId":' + "9" * 5000 + ',"disconnect":{}}',
    "no text": '{"adminCommand":{"command":1}}',
    "half a character": '{"adminCommand":{"command":"\\ud800"}}',
    "a member is missing": '{"adminCommand":{}}',
    "neither true nor false": '{"closeQueue":{"handleParameters":' + HANDLE_JSON + ',"isFinal":1}}',
    "an unknown word": '{"status":{"category":"E_OTHER"}}',
    "an unknown number": '{"status":{"category":1}}',
    "a code over 64 bits": '{"status":{"category":"E_SUCCESS","code":9223372036854775808}}',
    "no array": '{"configureStream":{"qId":1,"streamParameters":{"subscriptions":{}}}}',
    "an array of numbers": '{"configureStream":{"qId":1,"streamParameters":{"subscriptions":[1]}}}',
    "deep": "[" * 100_000,
    "deep objects": '{"x":' * 100_000,
}


@pytest.mark.parametrize("name", WRONG_JSON)
def test_wrong_json_is_malformed(name: str) -> None:
    with pytest.raises(Malformed):
        decode_control(in_json(WRONG_JSON[name]), Encoding.JSON)


def test_json_that_is_not_utf_8_is_malformed() -> None:
    text = '{"adminCommand":{"command":"é"}}'
    for codec in ("latin-1", "utf-16", "utf-32"):
        with pytest.raises(Malformed):
            decode_control(pad(text.encode(codec)), Encoding.JSON)


WRONG_BER = {
    "nothing": "",
    "no sequence": "8000",
    "no choice": "3080 800101 0000",
    "no selection": "3080 800101 a180 0000 0000",
    "two selections": "3080 a180 a1800000 a2800000 0000 0000",
    "two choices": "3080 a180 a1800000 0000 a180 a1800000 0000 0000",
    "two requests": "3080 800101 800101 a180 a1800000 0000 0000",
    "a request over 32 bits": "3080 80050080000000 a180 a1800000 0000 0000",
    "a choice that is a value": "3080 8100 0000",
    "a selection that is a value": "3080 a180 8100 0000 0000",
    "bytes behind it": "3080 a180 a1800000 0000 0000 00",
}


@pytest.mark.parametrize("name", WRONG_BER)
def test_wrong_ber_is_malformed(name: str) -> None:
    with pytest.raises(Malformed):
        decode_control(pad(bytes.fromhex(WRONG_BER[name])), Encoding.BER)


@pytest.mark.parametrize(
    "body",
    [
        "3080 a080 a2800000 0000 0000",
        "3080 a080 a0800000 0000 800101 0000",
        "3080 a080 0000 0000",
        "3080 0000",
        "3080 800101 a180 a1800000 0000 0000",
    ],
)
def test_a_hello_that_is_none_is_malformed(body: str) -> None:
    with pytest.raises(Malformed):
        decode_negotiation(pad(bytes.fromhex(body)), Encoding.BER)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"rId":1,"clientIdentity":{}}',
        '{"clientIdentity":{},"x":1}',
        '{"disconnect":{}}',
        '{"brokerResponse":{}}',
    ],
)
def test_a_hello_in_json_has_one_selection(text: str) -> None:
    with pytest.raises(Malformed):
        decode_negotiation(in_json(text), Encoding.JSON)


EXAMPLES = [HELLO_BYTES, OPEN_BYTES, CONFIGURE_BYTES, STREAM_BYTES]


@pytest.mark.parametrize("data", EXAMPLES, ids=["hello", "open", "configure", "stream"])
def test_ber_that_is_cut_anywhere_is_malformed(data: bytes) -> None:
    content = unpad(data[8:])
    for end in range(len(content)):
        for decode in (decode_control, decode_negotiation):
            with pytest.raises(Malformed):
                decode(pad(content[:end]), Encoding.BER)


@pytest.mark.parametrize("text", [OPENED_JSON, REPLY_JSON], ids=["opened", "reply"])
def test_json_that_is_cut_anywhere_is_malformed(text: str) -> None:
    for end in range(len(text)):
        for decode in (decode_control, decode_negotiation):
            with pytest.raises(Malformed):
                decode(in_json(text[:end]), Encoding.JSON)


@pytest.mark.parametrize("encoding", Encoding, ids=lambda encoding: encoding.name)
def test_a_message_has_padding(encoding: Encoding) -> None:
    body = encode_control(OPEN, encoding)
    with pytest.raises(Malformed):
        decode_control(body[:-1] + b"\0", encoding)
    with pytest.raises(Malformed):
        decode_control(b"", encoding)


@pytest.mark.parametrize("encoding", Encoding, ids=lambda encoding: encoding.name)
def test_a_message_has_a_longest_size(encoding: Encoding) -> None:
    longest = ControlMessage(1, AdminCommand("x" * (CONTROL_BYTES_MAX - 60)))
    assert decode_control(encode_control(longest, encoding), encoding) == longest
    longer = ControlMessage(1, AdminCommand("x" * CONTROL_BYTES_MAX))
    with pytest.raises(Malformed, match="more than"):
        decode_control(encode_control(longer, encoding), encoding)


def test_many_subscriptions_are_read_in_one_walk() -> None:
    subscription = ConsumerSubscription(1, Expression(1, "x"), (ConsumerInfo(1, 1, 1, 1),))
    stream = ConfigureStream(0, StreamParameters("a", (subscription,) * 10_000))
    message = ControlMessage(1, stream)
    for encoding in Encoding:
        assert decode_control(encode_control(message, encoding), encoding) == message


def test_every_field_has_a_member_of_its_own() -> None:
    """Two of one name would hide a field."""
    for cls in (*CONTENT.numbers, *NEGOTIATION.numbers, HandleParameters, ConsumerInfo, GuidInfo):
        labels = [field.label for field in shape(cls)]
        assert len(set(labels)) == len(labels)


@settings(deadline=None)
@given(st.binary(max_size=100) | messages.map(lambda m: encode_control(m, Encoding.BER)))
def test_garbage_is_malformed_and_nothing_worse(data: bytes) -> None:
    check(data)


@settings(deadline=None)
@given(
    st.sampled_from([data[8:] for data in EXAMPLES]),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
)
def test_damaged_messages_are_malformed_and_nothing_worse(
    data: bytes, damages: list[tuple[int, int]]
) -> None:
    damaged = bytearray(data)
    for place, byte in damages:
        damaged[place % len(damaged)] = byte
    check(bytes(damaged))


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())
