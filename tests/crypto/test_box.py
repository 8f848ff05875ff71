"""Boxes, the keys of blocks, and what is sealed for a recipient."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nacl.bindings import crypto_box_beforenm

from headgate.crypto.box import box, nonce_of, public_of, shared_key, shared_secret, unbox
from headgate.crypto.hsalsa20 import hsalsa20
from headgate.errors import Malformed
from headgate.wire.smp.codec.ciphers import (
    BlockCipher,
    Chain,
    Cipher,
    PlainCipher,
    chains,
    client_cipher,
    router_cipher,
)
from headgate.wire.smp.codec.sealed import (
    message_plaintext,
    notice_plaintext,
    open_message,
    open_notice,
    quota_plaintext,
    seal_message,
    seal_notice,
)
from tests.support.smp_parties import (
    CLIENT_SESSION,
    MESSAGE_ID,
    NOTIFIER_DH,
    QUEUE_DH,
    RECIPIENT_DH,
    ROUTER_SESSION,
    SESSION_ID,
    queue_key,
)

WIRE_28 = bytes.fromhex("01001f0018202122232425262728292a2b2c2d2e2f30313233343536370050494e47")
WIRE_40 = bytes.fromhex("3c528e9fd39731b15d10de8feb5f71d3f65b73c993581dedb03315a9ed177730")
WIRE_43 = bytes.fromhex(
    "9ff88586d932e5b33b6a06b2647ae3eb70fd4ee05c706248b77d4a5e4af637ae0d28351f5eed8411a6fdc086"
    "d183539a085e0fb038a9468adb0addaf0da3515a1296ce3c4c1e58ac75eebd3105895838dcd07fce7ba7c0f2"
    "2d4334101f8ee990260b8a9b5acb8dcd9cb546ceb8a8f96c4f3fb0eb93c5df74b2daaa84051789792e3738bc"
    "6a31b65927c9ea5a9bf29b91"
)
WIRE_44 = bytes.fromhex("9e004098efc091d4ec2663b4e9f5cfd4d7064571690b4bea97ab146ab9f35056")
WIRE_45 = bytes.fromhex(
    "90f64c20cb311c7a4a1cceb8d987e8d53e7b70f9fe124c21c7b1b5973805ebca68e2bbbe091a658e43822957"
    "c30706d3020fc8993b9084894e5d81991f33305a"
)
WIRE_46 = bytes.fromhex(
    "a87e40d3cb3f46afab7dc250316cae83a39ffc746e454d647cd691e2a04ba48fb2eea0d081065bdbe683c74e"
    "cb4fb46932c08aec859546220de705f3c254c05a14e962255fa9fa02c25029b6c67971294283d7201d8a87e1"
)
SECONDS = 1_700_000_000

LOW_ORDER = [bytes(32), b"\x01" + bytes(31)]

secrets = st.binary(min_size=32, max_size=32)
nonces = st.binary(min_size=24, max_size=24)


def ends() -> tuple[BlockCipher, BlockCipher]:
    """The router's and the client's cipher of the session of the examples."""
    router = router_cipher(ROUTER_SESSION, public_of(CLIENT_SESSION), SESSION_ID)
    client = client_cipher(CLIENT_SESSION, public_of(ROUTER_SESSION), SESSION_ID)
    return router, client


def test_the_secrets_of_queue_and_session_are_those_of_the_examples() -> None:
    """WIRE-40, WIRE-44"""
    assert shared_secret(RECIPIENT_DH, public_of(QUEUE_DH)) == WIRE_40
    assert shared_secret(QUEUE_DH, public_of(RECIPIENT_DH)) == WIRE_40
    assert shared_secret(CLIENT_SESSION, public_of(ROUTER_SESSION)) == WIRE_44


@given(secrets, secrets)
def test_a_shared_key_is_the_hash_of_the_shared_secret(ours: bytes, theirs: bytes) -> None:
    """hsalsa20 against libsodium's, which can only be had together with X25519."""
    public = public_of(theirs)
    assert hsalsa20(shared_secret(ours, public)) == crypto_box_beforenm(public, ours)
    assert shared_key(ours, public) == shared_key(theirs, public_of(ours))


@pytest.mark.parametrize("public", LOW_ORDER)
def test_a_public_key_of_low_order_is_refused(public: bytes) -> None:
    with pytest.raises(Malformed, match="low order"):
        shared_secret(ROUTER_SESSION, public)
    with pytest.raises(Malformed, match="low order"):
        shared_key(ROUTER_SESSION, public)


@given(st.binary(max_size=60))
@example(b"")
@example(bytes(24))
def test_a_nonce_is_cut_or_filled_with_zeros(name: bytes) -> None:
    nonce = nonce_of(name)
    assert len(nonce) == 24
    assert nonce == (name + bytes(24))[:24]


@given(secrets, nonces, st.binary(max_size=300))
def test_a_box_opens_with_its_key_and_nonce(key: bytes, nonce: bytes, message: bytes) -> None:
    sealed = box(key, nonce, message)
    assert len(sealed) == 16 + len(message)
    assert unbox(key, nonce, sealed) == message


@given(secrets, nonces, st.binary(max_size=60), st.data())
def test_a_box_with_a_flipped_bit_anywhere_does_not_open(
    key: bytes, nonce: bytes, message: bytes, data: st.DataObject
) -> None:
    parts = [bytearray(key), bytearray(nonce), bytearray(box(key, nonce, message))]
    part = data.draw(st.sampled_from(parts))
    bit = data.draw(st.integers(0, len(part) * 8 - 1))
    part[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Malformed, match="does not decrypt"):
        unbox(*map(bytes, parts))


@given(secrets, nonces, st.binary(max_size=100))
@example(bytes(32), bytes(24), b"")
@example(bytes(32), bytes(24), bytes(15))
def test_garbage_is_no_box(key: bytes, nonce: bytes, sealed: bytes) -> None:
    with pytest.raises(Malformed):
        unbox(key, nonce, sealed)


def test_the_chains_of_a_session_are_those_of_the_examples() -> None:
    """WIRE-45"""
    sending, receiving = chains(WIRE_44, SESSION_ID)
    assert sending.secret + receiving.secret == WIRE_45


def test_a_step_gives_secret_and_nonce_and_moves_on() -> None:
    """WIRE-46"""
    _, receiving = chains(WIRE_44, SESSION_ID)
    secret, nonce = receiving.step()
    assert receiving.secret + secret + nonce == WIRE_46
    assert receiving.step() != (secret, nonce)


def test_the_first_block_of_a_client_is_that_of_the_examples() -> None:
    """The first encrypted block, which holds the payload WIRE-28."""
    router, client = ends()
    block = client.seal(WIRE_28)
    assert len(block) == 16384
    assert block[:32].hex() == "87b699e1852a358013a69a963fc2a59ad9f5e8f4a65c6df950270a141f9f2fa3"
    assert sha256(block).hexdigest() == (
        "4cb7a9daa1a9ecc26517d21a617473dbf8a47b04b39e821973d9efaa737d17c2"
    )
    assert router.open(block) == WIRE_28


@given(secrets, secrets, st.binary(max_size=64), st.lists(st.binary(max_size=40), max_size=4))
def test_both_ends_of_a_session_agree_block_by_block(
    ours: bytes, theirs: bytes, session_id: bytes, payloads: list[bytes]
) -> None:
    router = router_cipher(ours, public_of(theirs), session_id)
    client = client_cipher(theirs, public_of(ours), session_id)
    for payload in payloads:
        assert client.open(router.seal(payload)) == payload
        assert router.open(client.seal(payload)) == payload


def test_equal_payloads_become_different_blocks() -> None:
    router, client = ends()
    blocks = {
        router.seal(WIRE_28),
        router.seal(WIRE_28),
        client.seal(WIRE_28),
        client.seal(WIRE_28),
    }
    assert len(blocks) == 4


@given(st.integers(0, 16384 * 8 - 1))
def test_a_block_with_a_flipped_bit_does_not_open_and_the_next_one_does(bit: int) -> None:
    router, client = ends()
    block = bytearray(client.seal(b"first"))
    block[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Malformed):
        router.open(bytes(block))
    assert router.open(client.seal(b"second")) == b"second"


def test_a_block_opens_once_and_only_in_its_order() -> None:
    router, client = ends()
    first, second = client.seal(b"first"), client.seal(b"second")
    with pytest.raises(Malformed):
        router.open(second)
    with pytest.raises(Malformed):
        router.open(first)


def test_a_session_of_another_id_opens_nothing() -> None:
    _, client = ends()
    other = router_cipher(ROUTER_SESSION, public_of(CLIENT_SESSION), SESSION_ID[1:])
    with pytest.raises(Malformed):
        other.open(client.seal(WIRE_28))


def ciphers() -> list[tuple[Cipher, Cipher]]:
    router, client = ends()
    return [(PlainCipher(), PlainCipher()), (router, client)]


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_longest_payload_fits_and_the_size_never_changes(encrypted: bool) -> None:
    router, client = ciphers()[encrypted]
    for payload in (b"", b"x", bytes(16366)):
        block = client.seal(payload)
        assert len(block) == 16384
        assert router.open(block) == payload


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("size", [0, 15, 16383, 16385])
def test_a_block_of_another_size_is_refused(encrypted: bool, size: int) -> None:
    router, _ = ciphers()[encrypted]
    with pytest.raises(Malformed, match=f"a block of {size} bytes"):
        router.open(bytes(size))


def test_a_plain_block_whose_length_lies_is_refused() -> None:
    with pytest.raises(Malformed):
        PlainCipher().open(b"\xff\xff".ljust(16384, b"#"))


@given(st.binary(min_size=1, max_size=64))
def test_garbage_of_the_right_size_does_not_open(filling: bytes) -> None:
    router, _ = ends()
    with pytest.raises(Malformed):
        router.open((filling * 16384)[:16384])


@pytest.mark.parametrize(
    ("plaintext", "first", "digest"),
    [
        (
            message_plaintext(SECONDS, False, b"hello"),
            "960448e6c9a4fbd83fdc1afaaee0e63ee24d939e5e3e58720b50deec74b8feaf",
            "a03e552ea8234a284e21a3a34be40c47d271f40df78631b3988b649d531d51be",
        ),
        (
            quota_plaintext(SECONDS),
            "60c43efcd32810798cc078f6cd59785be24cc2cb116a7c01fa5098cc798e63c3",
            "1dc5198aac832dcdd9c46c5fe391c690b837a461187328a117bd563362391ef8",
        ),
    ],
    ids=["message", "quota marker"],
)
def test_sealed_bodies_are_those_of_the_examples(plaintext: bytes, first: str, digest: str) -> None:
    """WIRE-41, sealed."""
    body = seal_message(queue_key(), MESSAGE_ID, plaintext)
    assert len(body) == 16122
    assert body[:32].hex() == first
    assert sha256(body).hexdigest() == digest
    recipients = shared_key(RECIPIENT_DH, public_of(QUEUE_DH))
    assert open_message(recipients, MESSAGE_ID, body) == plaintext


def test_a_whole_msg_is_that_of_the_examples() -> None:
    body = seal_message(queue_key(), MESSAGE_ID, message_plaintext(SECONDS, False, b"hello"))
    command = b"MSG " + bytes([len(MESSAGE_ID)]) + MESSAGE_ID + body
    assert len(command) == 16151
    assert sha256(command).hexdigest() == (
        "599aca2e51f145562a8c4c54e8bdea70c409c5462cf22da3081c261a19ed1117"
    )


def test_a_notice_is_that_of_the_examples() -> None:
    """WIRE-43"""
    plaintext = notice_plaintext(MESSAGE_ID, SECONDS)
    nonce = bytes(range(0xD0, 0xE8))
    metadata = seal_notice(shared_key(QUEUE_DH, public_of(NOTIFIER_DH)), nonce, plaintext)
    assert metadata == WIRE_43
    key = shared_key(NOTIFIER_DH, public_of(QUEUE_DH))
    assert open_notice(key, nonce, metadata) == plaintext


@given(secrets, st.binary(max_size=40), st.binary(max_size=16104))
@example(bytes(32), MESSAGE_ID, bytes(16104))
def test_a_message_opens_with_the_key_of_its_queue(
    key: bytes, message_id: bytes, plaintext: bytes
) -> None:
    body = seal_message(key, message_id, plaintext)
    assert len(body) == 16122
    assert open_message(key, message_id, body) == plaintext


@given(st.binary(max_size=200))
def test_garbage_is_neither_message_nor_notice(data: bytes) -> None:
    with pytest.raises(Malformed):
        open_message(queue_key(), MESSAGE_ID, data)
    with pytest.raises(Malformed):
        open_notice(queue_key(), nonce_of(MESSAGE_ID), data)


def test_a_box_whose_padding_lies_is_refused() -> None:
    sealed = box(queue_key(), nonce_of(MESSAGE_ID), b"\xff\xff" + bytes(126))
    with pytest.raises(Malformed):
        open_notice(queue_key(), nonce_of(MESSAGE_ID), sealed)


def test_a_chain_forgets_the_secret_of_a_step() -> None:
    chain = Chain(WIRE_44)
    secret, _ = chain.step()
    assert secret not in (chain.secret, WIRE_44)
