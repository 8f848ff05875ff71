"""Events come out of a stream as they went in, however it is cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.bmq_events import check
from headgate.wire.bmq.codec.frames import (
    HEARTBEAT_REQUEST,
    HEARTBEAT_RESPONSE,
    Encoding,
    Event,
    EventFrames,
    EventType,
    Malformed,
    event,
    pad,
    unpad,
)
from tests.support.bmq_examples import (
    ACK_BYTES,
    CONFIRM_BYTES,
    HELLO_BYTES,
    PUSH_BYTES,
    PUT_BYTES,
    REPLY_JSON,
    STREAM_BYTES,
)
from tests.support.repository import CORPORA

CORPUS = CORPORA / "bmq_events"

EXAMPLES = {
    EventType.CONTROL: HELLO_BYTES,
    EventType.PUT: PUT_BYTES,
    EventType.CONFIRM: CONFIRM_BYTES,
    EventType.PUSH: PUSH_BYTES,
    EventType.ACK: ACK_BYTES,
    EventType.HEARTBEAT_REQ: bytes.fromhex("000000084b020000"),
    EventType.HEARTBEAT_RSP: bytes.fromhex("000000084c020000"),
}


@pytest.mark.parametrize("type", EXAMPLES, ids=lambda type: type.name)
def test_events_have_their_bytes(type: EventType) -> None:
    data = EXAMPLES[type]
    assert EventFrames(1000).feed(data) == [Event(type, data[8:], Encoding.BER)]
    assert event(type, data[8:]) == data


def test_heartbeats_have_no_body() -> None:
    assert EXAMPLES[EventType.HEARTBEAT_REQ] == HEARTBEAT_REQUEST
    assert EXAMPLES[EventType.HEARTBEAT_RSP] == HEARTBEAT_RESPONSE


def test_the_header_tells_the_encoding_of_a_control_message() -> None:
    body = pad(REPLY_JSON.encode())
    data = event(EventType.CONTROL, body, Encoding.JSON)
    assert data == len(data).to_bytes(4, "big") + bytes.fromhex("41022000") + body
    assert EventFrames(1000).feed(data) == [Event(EventType.CONTROL, body, Encoding.JSON)]


def test_only_control_messages_have_an_encoding() -> None:
    (found,) = EventFrames(1000).feed(bytes.fromhex("0000000c4202e000 00000000"))
    assert found == Event(EventType.PUT, bytes(4), Encoding.BER)


def test_a_longer_header_is_skipped() -> None:
    (found,) = EventFrames(1000).feed(bytes.fromhex("00000010 42030000 aabbccdd 01020304"))
    assert found == Event(EventType.PUT, b"\1\2\3\4")


def test_an_unknown_type_is_for_the_session_to_judge() -> None:
    (found,) = EventFrames(1000).feed(bytes.fromhex("000000084f020000"))
    assert found.type == 15


def fed(data: bytes, size: int) -> list[Event]:
    """The events of a stream that comes in pieces of a size."""
    frames = EventFrames(100)
    return [each for at in range(0, len(data), size) for each in frames.feed(data[at : at + size])]


WRONG = {
    "a fragment": "80000008 42020000",
    "version 0": "00000008 02020000",
    "version 2": "00000008 82020000",
    "shorter than its header": "00000004 42020000",
    "empty": "00000000 42020000",
    "a header of one word": "00000008 42010000",
    "a header of none": "00000008 42000000",
    "a header longer than the event": "0000000c 42040000",
    "longer than allowed": "00000065 42020000",
    "as long as can be": "7fffffff 42020000",
    "a third encoding": "00000008 41024000",
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("size", [8, 1], ids=["whole", "byte by byte"])
def test_a_wrong_header_is_malformed(name: str, size: int) -> None:
    with pytest.raises(Malformed):
        fed(bytes.fromhex(WRONG[name]), size)


def test_the_longest_event_may_change_on_the_way() -> None:
    frames = EventFrames(100)
    assert len(frames.feed(event(EventType.PUT, bytes(92)))) == 1
    with pytest.raises(Malformed, match="over the limit of 100"):
        EventFrames(100).feed(event(EventType.PUT, bytes(93)))
    frames.bytes_max = 200
    assert len(frames.feed(event(EventType.PUT, bytes(192)))) == 1


def test_an_event_in_many_pieces_is_put_together_once() -> None:
    """The pieces are appended; nothing is looked at again until all are there."""
    body = bytes(range(256)) * 4096
    data = event(EventType.PUT, body) + HEARTBEAT_REQUEST
    frames = EventFrames(2**21)
    found = []
    for at in range(0, len(data), 1000):
        found += frames.feed(data[at : at + 1000])
        assert found or frames.held == min(at + 1000, len(data))
    assert found == [Event(EventType.PUT, body), Event(EventType.HEARTBEAT_REQ, b"")]
    assert frames.held == 0


bodies = st.binary(max_size=60)
whole = st.lists(
    st.builds(Event, st.sampled_from([2, 3, 4, 5, 11, 12, 15]), bodies)
    | st.builds(Event, st.just(1), bodies, st.sampled_from(Encoding))
)


@given(whole, st.integers(0, 30), st.lists(st.integers(0, 800)))
def test_a_stream_may_be_cut_anywhere(events: list[Event], more: int, cuts: list[int]) -> None:
    stream = b"".join(event(each.type, bytes(each.body), each.encoding) for each in events)
    stream += event(EventType.PUT, bytes(23))[:more]
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    frames = EventFrames(1000)
    found = [each for a, b in pairwise(places) for each in frames.feed(stream[a:b])]
    assert found == events
    assert frames.held == more


def test_padding_fills_a_word_and_is_never_empty() -> None:
    assert [pad(b"abcd"[:size])[size:].hex() for size in range(5)] == [
        "04040404",
        "030303",
        "0202",
        "01",
        "04040404",
    ]


@given(st.binary(max_size=30))
def test_what_was_padded_comes_back(data: bytes) -> None:
    assert len(pad(data)) % 4 == 0
    assert unpad(pad(data)) == data
    assert unpad(memoryview(pad(data))) == data


@pytest.mark.parametrize("padded", ["", "00", "05050505", "02", "61626303 04"[:8] + "ff"])
def test_wrong_padding_is_malformed(padded: str) -> None:
    with pytest.raises(Malformed):
        unpad(bytes.fromhex(padded))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_malformed_and_nothing_worse(data: bytes) -> None:
    check(data)


@settings(deadline=None)
@given(
    st.sampled_from([*EXAMPLES.values(), STREAM_BYTES]),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
)
def test_damaged_events_are_malformed_and_nothing_worse(
    data: bytes, damages: list[tuple[int, int]]
) -> None:
    damaged = bytearray(data)
    for place, byte in damages:
        damaged[place % len(damaged)] = byte
    check(bytes(damaged))


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())


def test_a_long_event_is_not_copied_once_more() -> None:
    frames = EventFrames(1000)
    whole = event(EventType.PUT, bytes(500))
    assert frames.feed(whole[:100]) == []
    [found] = frames.feed(whole[100:])
    assert found == Event(EventType.PUT, bytes(500))
    assert isinstance(found.body, memoryview)
