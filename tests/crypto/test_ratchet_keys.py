"""Keys of the ratchet come out as other implementations make them, on both sides."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.crypto.ratchet_keys import (
    AgreedKeys,
    PrivatePair,
    agree_as_initiator,
    agree_as_joiner,
    step_chain,
    step_root,
)
from headgate.crypto.x448 import decode_x448, encode_x448, exchange, public_of
from headgate.errors import Malformed


def x448(byte: int) -> bytes:
    return bytes((byte,)) * 56


INITIATOR = PrivatePair(x448(0xA1), x448(0xA2))
JOINER = PrivatePair(x448(0xB1), x448(0xB2))
JOINER_FRESH = x448(0xB3)

PUBLIC_A1 = bytes.fromhex(
    "817c1b03b33a87019fcaa80d62845f1dadb72442febeac67428e6d9c107abfe1609ee91d58cb8361d4a6ddedb0ec0b42"
    "feb1634e45432d44"
)
AGREED = """
    4888a1d97f4b70ca198d7fc9d97ebfd61d51cde5a1bf6100c58a4fa1cf920784
    1309d3abdac783c397bd11ac2dc4e5484ad819f39b0f4e980743bc756568d7c0
    8bcfb024a2417958251da6e4e3a3bc79141ee27cc50dc9a171d4c28c926e4378
"""
AGREED_WITH_KEM = """
    396676d21a74048e5c2b53d33b1a930d62abd141ed9a07489ca979a46984d360
    f5c4a36206d089faa9f61dc8acbbc3a9b21025403dd883056e852645e74c5b32
    ed67853421c0837c2325aef3cfd3004dfd8b279ad169e67f634e1c85f579093c
"""
ROOT = """
    f036008e49827d0d9e3d8f323f8fc0fb9faa16807a2762a0b62eb883c986509a
    acabd936b3f1513007ade620e84d1c1a7425981ddd87dcaa2907bf56d3d735b5
    ba15b73c050599b8d708defca71ace85b960673c19cf517c768c2092696e29ab
"""
CHAIN = """
    bca25769d372f215209423a0255270b1b936b1f020f4e69d3db75eeaf67a1129
    80f96f509a896147a0f66dd190f53d56dd4a1aebaa3f6b2323d7b7f335ae0f4f
    0bdd5a625b2faab03617e8e3035610b6
    178348461d9c82966e4e05b299ee299f
"""


def values(text: str) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(line) for line in text.split())


def keys_of(agreed: AgreedKeys) -> tuple[bytes, ...]:
    return agreed.header_key, agreed.next_header_key, agreed.root_key


def test_a_public_key_of_x448() -> None:
    assert public_of(x448(0xA1)) == PUBLIC_A1
    assert encode_x448(PUBLIC_A1).hex() == "3042300506032b656f033900" + PUBLIC_A1.hex()
    assert decode_x448(encode_x448(PUBLIC_A1)) == PUBLIC_A1


@pytest.mark.parametrize(("secret", "expected"), [(b"", AGREED), (b"\x77" * 32, AGREED_WITH_KEM)])
def test_both_agree_on_the_same_keys(secret: bytes, expected: str) -> None:
    agreed = agree_as_initiator(INITIATOR, JOINER.public, secret)
    assert keys_of(agreed) == values(expected)
    assert agree_as_joiner(JOINER, INITIATOR.public, secret) == agreed
    assert agreed.associated_data == public_of(x448(0xB1)) + public_of(x448(0xA1))


def test_a_step_of_the_root_and_of_its_chain() -> None:
    root = step_root(values(AGREED)[2], JOINER_FRESH, INITIATOR.public.second)
    assert (root.root_key, root.chain_key, root.next_header_key) == values(ROOT)
    step = step_chain(root.chain_key)
    assert (step.chain_key, step.message_key, step.iv, step.header_iv) == values(CHAIN)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.binary(min_size=56, max_size=56), min_size=4, max_size=4))
def test_any_keys_agree(drawn: list[bytes]) -> None:
    one, other = PrivatePair(drawn[0], drawn[1]), PrivatePair(drawn[2], drawn[3])
    assert agree_as_joiner(one, other.public) == agree_as_initiator(other, one.public)


@pytest.mark.parametrize("public", [bytes(56), b"\x01" + bytes(55)])
def test_a_key_that_gives_everybody_one_secret_is_refused(public: bytes) -> None:
    with pytest.raises(Malformed, match="low order"):
        exchange(x448(1), public)


@pytest.mark.parametrize(
    "der", [b"", encode_x448(PUBLIC_A1)[:-1], encode_x448(PUBLIC_A1) + b"\0", bytes(68)]
)
def test_what_is_no_key_of_x448_is_malformed(der: bytes) -> None:
    with pytest.raises(Malformed, match="X448"):
        decode_x448(der)


def test_secrets_are_not_shown() -> None:
    agreed = agree_as_joiner(JOINER, INITIATOR.public)
    root = step_root(agreed.root_key, JOINER_FRESH, INITIATOR.public.second)
    step = step_chain(root.chain_key)
    shown = repr((JOINER, agreed, root, step))
    secrets = [*values(AGREED), *values(ROOT), *values(CHAIN), JOINER.first, JOINER.second]
    assert not [secret for secret in secrets if repr(secret) in shown]
