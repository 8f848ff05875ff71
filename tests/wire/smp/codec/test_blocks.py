"""Transmissions fill as few blocks as they need, and come out of them as they were."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.smp_blocks import check
from headgate.crypto.padding import pad
from headgate.errors import Malformed
from headgate.wire.smp.codec.blocks import (
    BATCH,
    BLOCK,
    PADDED,
    PAYLOAD,
    TRANSMISSION,
    BlockFrames,
    LargeMessage,
    pack,
    unpack,
)
from headgate.wire.smp.codec.commands import Ping, Sub, encode_command
from headgate.wire.smp.codec.replies import Alls, NMsg, Pong, Reply, SmpEnd, Sok, encode_reply
from headgate.wire.smp.codec.transmissions import Transmission, encode, encode_unsigned
from tests.support.repository import CORPORA
from tests.support.smp_examples import CORRELATION, NOTIFIER, RECIPIENT, SENDER

CORPUS = CORPORA / "smp_blocks"


def told(reply: Reply, correlation: bytes, entity: bytes) -> bytes:
    return encode_unsigned(correlation, entity, encode_reply(reply, 19))


def sub(authorization: int, version: int = 19, service: bytes | None = None) -> bytes:
    command = encode_command(Sub(), version)
    return encode(
        Transmission(bytes(authorization), service, CORRELATION, RECIPIENT, command), version
    )


def test_the_sizes_follow_from_the_block() -> None:
    assert (BLOCK, PADDED, PAYLOAD, BATCH, TRANSMISSION) == (16384, 16368, 16366, 16365, 16363)


EXAMPLES = {
    "a PING": (
        [encode_unsigned(CORRELATION, b"", encode_command(Ping(), 19))],
        "01001f0018202122232425262728292a2b2c2d2e2f30313233343536370050494e47",
    ),
    "its PONG": (
        [told(Pong(), CORRELATION, b"")],
        "01001f0018202122232425262728292a2b2c2d2e2f303132333435363700504f4e47",
    ),
    "a SOK and an END of another queue": (
        [told(Sok(), CORRELATION, RECIPIENT), told(SmpEnd(), b"", SENDER)],
        "0200380018202122232425262728292a2b2c2d2e2f303132333435363718404142434445464748494a4b4c"
        "4d4e4f5051525354555657534f4b2030001e000018606162636465666768696a6b6c6d6e6f707172737475"
        "7677454e44",
    ),
    "an ALLS": ([told(Alls(), b"", b"")], "010007000000414c4c53"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_payloads_have_their_bytes(name: str) -> None:
    """WIRE-28, WIRE-29, WIRE-30, WIRE-31."""
    transmissions, payload = EXAMPLES[name]
    assert pack(transmissions) == [bytes.fromhex(payload)]
    assert unpack(bytes.fromhex(payload)) == transmissions


CAPACITIES = {
    "SUB by Ed25519": (sub(64), 135),
    "SUB before version 16": (sub(64, version=15), 136),
    "SUB by X25519": (sub(80), 119),
    "SUB by Ed448": (sub(114), 95),
    "SUB signed by a service": (sub(64, service=bytes(64)), 87),
    "END": (told(SmpEnd(), b"", RECIPIENT), 255),
    "NMSG": (told(NMsg(bytes(24), bytes(144)), b"", NOTIFIER), 80),
    "SOK": (told(Sok(), CORRELATION, RECIPIENT), 255),
    "what fills it to the last byte": (bytes(TRANSMISSION), 1),
}


@pytest.mark.parametrize("name", CAPACITIES)
def test_a_block_holds_so_many(name: str) -> None:
    """ACC-92."""
    transmission, capacity = CAPACITIES[name]
    assert [payload[0] for payload in pack([transmission] * capacity)] == [capacity]
    assert [payload[0] for payload in pack([transmission] * (capacity + 1))] == [capacity, 1]


def test_300_subscriptions_take_three_blocks() -> None:
    """ACC-91."""
    assert [payload[0] for payload in pack([sub(64)] * 300)] == [135, 135, 30]


def test_what_does_not_fit_starts_another_block() -> None:
    """ACC-93."""
    small, rest = b"a" * 10, b"b" * (BATCH - 12 - 2)
    assert [payload[0] for payload in pack([small, rest])] == [2]
    assert [len(payload) for payload in pack([small, rest])] == [PAYLOAD]
    assert [payload[0] for payload in pack([small, rest + b"b"])] == [1, 1]


def test_the_largest_transmission_has_a_block_for_itself() -> None:
    largest = bytes(TRANSMISSION)
    assert [payload[0] for payload in pack([b"a", largest, b"b"])] == [1, 1, 1]
    assert len(pack([largest])[0]) == PAYLOAD


def test_one_that_fits_no_block_is_named() -> None:
    """ACC-93."""
    with pytest.raises(LargeMessage) as caught:
        pack([b"a", bytes(TRANSMISSION + 1), b"b"])
    assert caught.value.position == 1


def test_nothing_takes_no_block() -> None:
    assert pack([]) == []


sizes = st.one_of(
    st.integers(0, 200), st.integers(0, TRANSMISSION), st.integers(TRANSMISSION - 40, TRANSMISSION)
)


@settings(deadline=None, max_examples=50)
@given(st.lists(sizes, max_size=600))
def test_packing_loses_nothing_and_wastes_nothing(lengths: list[int]) -> None:
    transmissions = [bytes((n % 256,)) * length for n, length in enumerate(lengths)]
    payloads = pack(transmissions)
    assert [one for payload in payloads for one in unpack(payload)] == transmissions
    assert all(len(payload) <= PAYLOAD for payload in payloads)
    for payload, following in pairwise(payloads):
        first = unpack(following)[0]
        assert payload[0] == 255 or len(payload) + 2 + len(first) > PAYLOAD


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0",
        b"\0\0\1a",
        b"\1",
        b"\1\0",
        b"\1\0\2a",
        b"\2\0\1a",
        b"\2\0\1a\0",
        b"\1\0\1ab",
        b"\1\xff\xffa",
    ],
)
def test_a_payload_that_is_no_batch_is_malformed(payload: bytes) -> None:
    """ACC-90."""
    with pytest.raises(Malformed):
        unpack(payload)


def test_a_payload_that_is_a_batch_is_read_after_one_that_is_not() -> None:
    """ACC-90."""
    with pytest.raises(Malformed):
        unpack(b"\2\0\1a")
    assert unpack(b"\2\0\1a\0\2bc") == [b"a", b"bc"]


def test_a_transmission_may_be_empty() -> None:
    assert unpack(b"\2\0\0\0\1a") == [b"", b"a"]


def test_a_chunk_that_is_a_block_is_not_copied() -> None:
    frames = BlockFrames()
    chunk = bytes(BLOCK)
    assert frames.feed(chunk)[0] is chunk
    assert frames.held == 0


def test_no_more_than_a_part_of_a_block_is_held() -> None:
    frames = BlockFrames()
    assert frames.feed(bytes(BLOCK - 1)) == []
    assert frames.held == BLOCK - 1
    assert frames.feed(b"ab") == [bytes(BLOCK - 1) + b"a"]
    assert frames.held == 1
    assert len(frames.feed(bytes(3 * BLOCK))) == 3
    assert frames.held == 1
    assert frames.feed(b"") == []


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(0, 5 * BLOCK), max_size=12),
    st.integers(0, 3),
    st.integers(0, BLOCK - 1),
)
def test_blocks_are_the_same_however_the_stream_is_cut(
    cuts: list[int], count: int, more: int
) -> None:
    blocks = [pad(b"block %d" % n, BLOCK) for n in range(count)]
    stream = b"".join(blocks) + b"x" * more
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    frames = BlockFrames()
    found = [block for a, b in pairwise(places) for block in frames.feed(stream[a:b])]
    assert found == blocks
    assert frames.held == more


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_garbage_is_malformed_and_nothing_worse(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_the_corpus_of_the_fuzzer_finds_nothing(path: Path) -> None:
    check(path.read_bytes())
