"""Requests and replies in blocks of 512 bytes, both ways."""

from __future__ import annotations

from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import KeyKind, encode_key, public_key
from headgate.crypto.padding import pad
from headgate.crypto.proof import Verifier, authenticator
from headgate.errors import Malformed
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.commands import NtfCommand, encode_command
from headgate.wire.ntf.devices import WebPushDevice
from headgate.wire.ntf.replies import IdSub, SubscriptionState, TokenState
from headgate.wire.ntf.statuses import InvalidReason, SubscriptionStatus, TokenStatus
from headgate.wire.ntf.transmissions import (
    BATCH,
    BLOCK,
    UNREADABLE,
    NtfAnswer,
    NtfRequest,
    encode_answer,
    encode_block,
    encode_request,
    pack_blocks,
    read_answers,
    read_requests,
    signed_bytes,
    unpack_block,
)
from headgate.wire.smp.codec.blocks import BlockFrames, LargeMessage
from headgate.wire.smp.codec.commands import Ping
from headgate.wire.smp.codec.replies import Err, Ok, Pong
from tests.support.ntf_examples import SNEW, SUBSCRIPTION, TNEW, TOKEN, WEB_DEVICE
from tests.support.smp_examples import CORRELATION, RECIPIENT_DH, RECIPIENT_KEY, SESSION

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
UPSTREAM_BATCH = 493


def sign(command: NtfCommand, entity: bytes = b"") -> bytes:
    data = encode_command(command)
    signature = PRIVATE.sign(signed_bytes(SESSION, CORRELATION, entity, data))
    return encode_request(signature, CORRELATION, entity, data)


def test_a_signed_registration_is_that_of_the_examples() -> None:
    sent = sign(TNEW)
    assert public_key(PRIVATE) == RECIPIENT_KEY == TNEW.verify_key
    assert len(sent) == 194
    assert sent[1:65].hex() == (
        "a4e89f00198dae144dfab6b32ab29d7d82a53822768053ccd1b4cb83606e499f1ab8d4f4c224bb7b4b51957cc835"
        "fcf761f2da2685a77ea24313f14df552910d"
    )
    [block] = pack_blocks([sent])
    assert len(block) == BLOCK
    assert (
        sha256(block).hexdigest()
        == "346c72de04ae3219c2ccf31eff4ff6ac3b06be3566d34f04cc3519a09ae82aa4"
    )
    [request] = read_requests(block, SESSION)
    assert isinstance(request, NtfRequest)
    assert (request.correlation, request.entity, request.command) == (CORRELATION, b"", TNEW)
    verifier = Verifier(bytes([0x11]) * 32)
    keys = [TNEW.verify_key]
    assert verifier.entity(request.signed, request.authorization, keys, CORRELATION)
    [elsewhere] = read_requests(block, bytes(32))
    assert isinstance(elsewhere, NtfRequest)
    assert not verifier.entity(elsewhere.signed, elsewhere.authorization, keys, CORRELATION)


def test_a_signed_subscription_is_as_long_as_it_should_be() -> None:
    assert len(sign(SNEW)) == 249


def test_an_authenticator_is_that_of_the_examples() -> None:
    token_key, session_key = bytes([0x55]) * 32, bytes([0x11]) * 32
    data = encode_command(c.TChk())
    signed = signed_bytes(SESSION, CORRELATION, TOKEN, data)
    made = authenticator(shared_key(token_key, public_of(session_key)), CORRELATION, signed)
    assert made.hex() == (
        "dbb278f3cdc6c8d0ebc67856dc5478106794c88855fedf5e9fe5f2003c738d9e037f83b9155ff0a50bd83fedac03"
        "edc942d0b92921f72955a88a17e2bca01d22aafc91ced9455cd91dc2d68e2aa4482e"
    )
    [block] = pack_blocks([encode_request(made, CORRELATION, TOKEN, data)])
    [request] = read_requests(block, SESSION)
    assert isinstance(request, NtfRequest)
    keys = [encode_key(KeyKind.X25519, public_of(token_key))]
    assert Verifier(session_key).entity(request.signed, request.authorization, keys, CORRELATION)
    # Without a key the check is made with one that fits nothing, and takes as long.
    assert not Verifier(session_key).entity(request.signed, request.authorization, [], CORRELATION)


def test_a_block_has_room_for_four_checks_or_one_subscription() -> None:
    check = sign(c.SChk(), SUBSCRIPTION)
    assert [len(unpack_block(block)) for block in pack_blocks([check] * 9)] == [4, 4, 1]
    assert len(pack_blocks([sign(SNEW)] * 2, UPSTREAM_BATCH)) == 2
    assert BATCH == 509


@pytest.mark.parametrize(("batch_bytes", "longest"), [(UPSTREAM_BATCH, 204), (BATCH, 220)])
def test_the_longest_endpoint_is_longer_if_the_block_is_filled(
    batch_bytes: int, longest: int
) -> None:
    def registration(path: int) -> bytes:
        url = "https://push.example/" + "a" * (path - 1)
        device = WebPushDevice.of(url, WEB_DEVICE.auth, WEB_DEVICE.key)
        return sign(c.TNew(device, RECIPIENT_KEY, RECIPIENT_DH))

    [block] = pack_blocks([registration(longest)], batch_bytes)
    [request] = read_requests(block, SESSION)
    assert isinstance(request, NtfRequest)
    with pytest.raises(LargeMessage):
        pack_blocks([registration(longest + 1)], batch_bytes)


def test_blocks_are_cut_out_of_a_stream() -> None:
    blocks = pack_blocks([sign(c.SChk(), SUBSCRIPTION)] * 9)
    stream = b"".join(blocks)
    for step in (1, 100, 512, 513, 5000):
        frames = BlockFrames(BLOCK)
        cut = [b for at in range(0, len(stream), step) for b in frames.feed(stream[at : at + step])]
        assert cut == blocks
        assert frames.held == 0


def answered(data: bytes) -> NtfAnswer:
    [block] = pack_blocks([data])
    [answer] = read_requests(block, SESSION)
    assert isinstance(answer, NtfAnswer)
    return answer


def plain(command: bytes, entity: bytes = b"", authorization: bytes = b"") -> bytes:
    return encode_request(authorization, CORRELATION, entity, command)


@pytest.mark.parametrize(
    ("sent", "entity", "error"),
    [
        (plain(b"WHAT"), b"", "CMD UNKNOWN"),
        (plain(b"TVFY", TOKEN, bytes(64)), TOKEN, "CMD SYNTAX"),
        (plain(b"TCHK", TOKEN), TOKEN, "CMD NO_AUTH"),
        (plain(b"TCHK", b"", bytes(64)), b"", "CMD NO_AUTH"),
        (plain(encode_command(TNEW)), b"", "CMD NO_AUTH"),
        (plain(encode_command(TNEW), TOKEN, bytes(64)), TOKEN, "CMD HAS_AUTH"),
        (plain(encode_command(SNEW), TOKEN, bytes(64)), TOKEN, "CMD HAS_AUTH"),
        (plain(b"PING", TOKEN), TOKEN, "CMD HAS_AUTH"),
        (plain(b"PING", b"", bytes(64)), b"", "CMD HAS_AUTH"),
        (plain(b"TCHK", TOKEN, bytes(63)), b"", "BLOCK"),
    ],
)
def test_a_request_of_a_wrong_shape_is_answered_at_once(
    sent: bytes, entity: bytes, error: str
) -> None:
    assert answered(sent) == NtfAnswer(CORRELATION, entity, Err(error))


def test_a_transmission_that_cannot_be_read_is_answered_and_the_next_one_is_taken() -> None:
    [block] = pack_blocks([b"\xff", plain(b"PING")])
    first, second = read_requests(block, SESSION)
    assert first == UNREADABLE == NtfAnswer(b"", b"", Err("BLOCK"))
    assert isinstance(second, NtfRequest)
    assert (second.command, second.authorization) == (Ping(), b"")


@pytest.mark.parametrize(
    "block",
    [
        b"",
        bytes(511),
        bytes(512),
        bytes(513),
        pad(b"\0", 512),
        pad(b"\1\0\5PING", 512),
        pad(b"\1\0\4PINGx", 512),
        b"\xff\xff" + bytes(510),
    ],
)
def test_a_block_that_cannot_be_read_is_answered_once(block: bytes) -> None:
    assert read_requests(block, SESSION) == [UNREADABLE]
    with pytest.raises(Malformed):
        read_answers(block)


ANSWERS = [
    NtfAnswer(CORRELATION, b"", IdSub(SUBSCRIPTION)),
    NtfAnswer(CORRELATION, TOKEN, TokenState(TokenStatus.INVALID, InvalidReason.BAD)),
    NtfAnswer(
        CORRELATION, SUBSCRIPTION, SubscriptionState(SubscriptionStatus.ERR, "SMP error QUOTA")
    ),
    NtfAnswer(CORRELATION, TOKEN, Ok()),
    NtfAnswer(CORRELATION, b"", Pong()),
    NtfAnswer(CORRELATION, TOKEN, Err("AUTH")),
]


def test_an_app_reads_what_a_server_writes() -> None:
    blocks = pack_blocks([encode_answer(answer, 3) for answer in ANSWERS])
    assert [answer for block in blocks for answer in read_answers(block)] == ANSWERS


def test_a_reply_is_not_signed() -> None:
    [block] = pack_blocks([plain(b"OK", TOKEN, bytes(64))])
    with pytest.raises(Malformed):
        read_answers(block)


def test_what_a_request_proves_is_not_shown() -> None:
    [block] = pack_blocks([sign(SNEW)])
    [request] = read_requests(block, SESSION)
    assert "\\x06\\x06\\x06" not in repr(request)


@given(st.lists(st.binary(max_size=BATCH - 2), min_size=1, max_size=20))
def test_transmissions_come_out_of_blocks_as_they_went_in(transmissions: list[bytes]) -> None:
    blocks = pack_blocks(transmissions)
    assert [each for block in blocks for each in unpack_block(block)] == transmissions
    assert {len(block) for block in blocks} == {BLOCK}


@given(st.binary(max_size=BLOCK - 2))
def test_any_payload_is_answered(payload: bytes) -> None:
    assert read_requests(encode_block(payload), SESSION)
