"""Authorizations: by signature, by authenticator, and twice in the sessions of services."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_core_ed25519_is_valid_point

from headgate.crypto import proof
from headgate.crypto.box import public_of, shared_key
from headgate.crypto.keys import (
    KeyKind,
    encode_key,
    fingerprint,
    kind_of,
    public_key,
    raw_key,
    verify,
)
from headgate.crypto.proof import (
    KIND_BY_LENGTH,
    NOBODY,
    ServiceProof,
    Verifier,
    authenticator,
    link_sender,
)
from headgate.wire.smp.codec.transmissions import Transmission, encode, parse, signed
from tests.support.smp_parties import (
    CORRELATION,
    RECIPIENT,
    RECIPIENT_ID,
    ROUTER_SESSION,
    SENDER,
    SENDER_ID,
    SERVICE,
    SERVICE_CERTIFICATE,
    SERVICE_SESSION,
    SESSION_ID,
    dh_spki,
)

WIRE_19 = bytes.fromhex(
    "40228c8a5968a7aef509159a2867f18384520f4db8795ca9007ab49b35afef477da33b81fe0df2bff5649576"
    "ce4f072a92830aa1c979aed4afe76f5b46835fb4053018202122232425262728292a2b2c2d2e2f3031323334"
    "35363718404142434445464748494a4b4c4d4e4f5051525354555657535542"
)
WIRE_20 = bytes.fromhex(
    "40228c8a5968a7aef509159a2867f18384520f4db8795ca9007ab49b35afef477da33b81fe0df2bff5649576"
    "ce4f072a92830aa1c979aed4afe76f5b46835fb40518202122232425262728292a2b2c2d2e2f303132333435"
    "363718404142434445464748494a4b4c4d4e4f5051525354555657535542"
)
WIRE_21 = bytes.fromhex(
    "40d752f20d5269879f3812dcc47b2dc4700019bf5248ab514e683cd5483e7f8acc7d315fd06aaa3dbef4d7f2"
    "3454fd2744996a6e11aa3554a78906cfc142c0da003140184c33763650eec716cde057ba5732aca76ad06d96"
    "cb7cc52812db9d39a0aeb25ff46921336041494549630906927f99f00a910f87812a9036ec908e3cb5700e18"
    "202122232425262728292a2b2c2d2e2f303132333435363718404142434445464748494a4b4c4d4e4f505152"
    "5354555657535542"
)
WIRE_24 = bytes.fromhex(
    "407c4db8842609a6d745f52eefae504822a3b2d268ec5dd2cb207de8d347fe7a15bc32d4cb38b9c5f0c04ad4"
    "8997721b50f22dc676912c3ea8e333c7a38a19df0f3018202122232425262728292a2b2c2d2e2f3031323334"
    "35363718a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b753554253200000000000000002106d91"
    "253224465d5e85d6ce0ff1795879"
)
WIRE_26 = bytes.fromhex(
    "a9735fab92b69e6d3de104f429d3a191769176a73228e859b42a3674c3163f396c6b013534c608c086af9e27"
    "8777eebbcf94495ab26cd8c10392cb531eaf63b4fcb6f01553cdc3eedc440a9928bb8ece"
)
WIRE_27 = bytes.fromhex(
    "50a9735fab92b69e6d3de104f429d3a191769176a73228e859b42a3674c3163f396c6b013534c608c086af9e"
    "278777eebbcf94495ab26cd8c10392cb531eaf63b4fcb6f01553cdc3eedc440a9928bb8ece30182021222324"
    "25262728292a2b2c2d2e2f303132333435363718606162636465666768696a6b6c6d6e6f7071727374757677"
    "53454e4420462068656c6c6f"
)
WIRE_47 = bytes.fromhex("211ed990297fbdac10692291988cea18779992d156fd2036")
FINGERPRINT = fingerprint([SERVICE_CERTIFICATE])
IN_SERVICE = ServiceProof(FINGERPRINT, public_key(SERVICE_SESSION))
LONG = Ed448PrivateKey.generate()

KEYS = {
    KeyKind.ED25519: public_key(RECIPIENT),
    KeyKind.ED448: public_key(LONG),
    KeyKind.X25519: dh_spki(SENDER),
}
OTHERS = {
    KeyKind.ED25519: public_key(Ed25519PrivateKey.generate()),
    KeyKind.ED448: public_key(Ed448PrivateKey.generate()),
    KeyKind.X25519: dh_spki(b"\x77" * 32),
}


def authorize(kind: KeyKind, message: bytes, correlation: bytes = CORRELATION) -> bytes:
    """By the key of that kind in `KEYS`."""
    match kind:
        case KeyKind.ED25519:
            return RECIPIENT.sign(message)
        case KeyKind.ED448:
            return LONG.sign(message)
        case KeyKind.X25519:
            key = shared_key(SENDER, public_of(ROUTER_SESSION))
            return authenticator(key, correlation, message)


SUB = signed(SESSION_ID, Transmission(b"", None, CORRELATION, RECIPIENT_ID, b"SUB"))
KINDS = list(KeyKind)


def is_authorized(verifier: Verifier, data: bytes, keys: Sequence[bytes], version: int) -> bool:
    """A plain command, as it came."""
    sent = parse(data, version)
    return verifier.entity(signed(SESSION_ID, sent), sent.authorization, keys, sent.correlation)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[KeyKind | None]:
    """The kinds of the keys that were really checked with."""
    done: list[KeyKind | None] = []

    def counted_verify(spki: bytes, message: bytes, signature: bytes) -> bool:
        done.append(kind_of(spki))
        return verify(spki, message, signature)

    def counted_shared_key(private: bytes, public: bytes) -> bytes:
        done.append(KeyKind.X25519)
        return shared_key(private, public)

    monkeypatch.setattr(proof, "verify", counted_verify)
    monkeypatch.setattr(proof, "shared_key", counted_shared_key)
    return done


@pytest.mark.parametrize(
    ("data", "version"), [(WIRE_19, 19), (WIRE_20, 15)], ids=["WIRE-19", "WIRE-20"]
)
def test_a_signed_sub_of_the_examples_is_authorized(data: bytes, version: int) -> None:
    """WIRE-19, WIRE-20"""
    assert is_authorized(Verifier(ROUTER_SESSION), data, [public_key(RECIPIENT)], version)
    assert not is_authorized(Verifier(ROUTER_SESSION), data, [public_key(SERVICE)], version)


def test_a_send_with_an_authenticator_is_that_of_the_examples() -> None:
    """WIRE-25..WIRE-27"""
    unsigned = Transmission(b"", None, CORRELATION, SENDER_ID, b"SEND F hello")
    authorization = authorize(KeyKind.X25519, signed(SESSION_ID, unsigned))
    assert authorization == WIRE_26
    sent = Transmission(authorization, None, CORRELATION, SENDER_ID, b"SEND F hello")
    assert encode(sent, 19) == WIRE_27
    assert is_authorized(Verifier(ROUTER_SESSION), WIRE_27, [dh_spki(SENDER)], 19)


def test_a_sub_of_a_service_is_authorized_twice() -> None:
    """WIRE-21, S001-19..S001-21"""
    sent = parse(WIRE_21, 19)
    message = signed(SESSION_ID, sent)
    keys = [public_key(RECIPIENT)]
    assert sent.service_signature is not None
    verifier = Verifier(ROUTER_SESSION, IN_SERVICE)
    assert verifier.service(message, sent.service_signature)
    assert verifier.entity(message, sent.authorization, keys, sent.correlation, is_associating=True)
    assert not verifier.entity(message, sent.authorization, keys, sent.correlation)
    assert not verifier.service(FINGERPRINT + message, sent.service_signature)


def test_a_subs_is_signed_by_the_session_key_of_the_service() -> None:
    """WIRE-24, S001-17"""
    sent = parse(WIRE_24, 19)
    message = signed(SESSION_ID, sent)
    assert Verifier(ROUTER_SESSION, IN_SERVICE).service(message, sent.authorization)
    by_certificate = ServiceProof(FINGERPRINT, public_key(SERVICE))
    assert not Verifier(ROUTER_SESSION, by_certificate).service(message, sent.authorization)


def test_the_signature_of_an_earlier_connection_is_worth_nothing() -> None:
    """S001-18"""
    sent = parse(WIRE_24, 19)
    verifier = Verifier(ROUTER_SESSION, IN_SERVICE)
    assert not verifier.service(signed(SESSION_ID[::-1], sent), sent.authorization)
    later = ServiceProof(FINGERPRINT, public_key(Ed25519PrivateKey.generate()))
    assert not Verifier(ROUTER_SESSION, later).service(signed(SESSION_ID, sent), sent.authorization)


def test_without_a_service_there_is_no_service_signature() -> None:
    assert not Verifier(ROUTER_SESSION).service(SUB, SERVICE_SESSION.sign(SUB))


@pytest.mark.parametrize("signature", [b"", bytes(63), bytes(64), bytes(80), bytes(114)])
def test_a_service_signature_of_another_shape_is_none(signature: bytes) -> None:
    assert not Verifier(ROUTER_SESSION, IN_SERVICE).service(SUB, signature)


@pytest.mark.parametrize("kind", KINDS)
def test_the_fingerprint_of_another_service_does_not_authorize(kind: KeyKind) -> None:
    """S001-20"""
    verifier = Verifier(ROUTER_SESSION, IN_SERVICE)

    def associates(message: bytes) -> bool:
        return verifier.entity(
            SUB, authorize(kind, message), [KEYS[kind]], CORRELATION, is_associating=True
        )

    assert associates(FINGERPRINT + SUB)
    assert not associates(bytes(32) + SUB)
    assert not associates(SUB)


@pytest.mark.parametrize("kind", KINDS)
def test_outside_of_services_an_associating_command_is_authorized_plainly(kind: KeyKind) -> None:
    authorization = authorize(kind, SUB)
    assert Verifier(ROUTER_SESSION).entity(
        SUB, authorization, [KEYS[kind]], CORRELATION, is_associating=True
    )


@given(st.sampled_from(KINDS), st.data())
def test_a_flipped_bit_anywhere_authorizes_nothing(kind: KeyKind, data: st.DataObject) -> None:
    parts = [bytearray(SUB), bytearray(authorize(kind, SUB)), bytearray(KEYS[kind])]
    part = data.draw(st.sampled_from(parts))
    last = len(part) * 8 - 1
    if part is parts[2] and kind is KeyKind.X25519:
        last -= 8  # the highest bit of a public key means nothing to X25519
    bit = data.draw(st.integers(0, last))
    part[bit // 8] ^= 1 << bit % 8
    message, authorization, key = map(bytes, parts)
    assert not Verifier(ROUTER_SESSION).entity(message, authorization, [key], CORRELATION)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_an_authenticator_holds_for_its_correlation_only(ours: bytes, other: bytes) -> None:
    authorization = authorize(KeyKind.X25519, SUB, ours)
    verifier = Verifier(ROUTER_SESSION)
    assert verifier.entity(SUB, authorization, [dh_spki(SENDER)], ours)
    is_same = (ours + bytes(24))[:24] == (other + bytes(24))[:24]
    assert verifier.entity(SUB, authorization, [dh_spki(SENDER)], other) == is_same


def test_an_authenticator_holds_for_the_session_key_of_its_router_only() -> None:
    authorization = authorize(KeyKind.X25519, SUB)
    assert not Verifier(b"\x12" * 32).entity(SUB, authorization, [dh_spki(SENDER)], CORRELATION)


@pytest.mark.parametrize("raw", [bytes(32), b"\x01" + bytes(31)])
def test_a_key_of_low_order_authorizes_nothing(raw: bytes) -> None:
    key = encode_key(KeyKind.X25519, raw)
    assert not Verifier(ROUTER_SESSION).entity(SUB, bytes(80), [key], CORRELATION)


@pytest.mark.parametrize("kind", KINDS)
def test_any_of_several_keys_authorizes(kind: KeyKind) -> None:
    authorization = authorize(kind, SUB)
    verifier = Verifier(ROUTER_SESSION)
    right, wrong = KEYS[kind], OTHERS[kind]
    for keys in ([right, wrong], [wrong, right], [*KEYS.values(), *OTHERS.values()]):
        assert verifier.entity(SUB, authorization, keys, CORRELATION)
    assert not verifier.entity(SUB, authorization, list(OTHERS.values()), CORRELATION)


@pytest.mark.parametrize("kind", KINDS)
def test_all_keys_of_the_kind_are_tried_wherever_the_right_one_stands(
    kind: KeyKind, checked: list[KeyKind | None]
) -> None:
    right, wrong = KEYS[kind], OTHERS[kind]
    for keys in ([right, wrong], [wrong, right], [wrong, wrong]):
        checked.clear()
        Verifier(ROUTER_SESSION).entity(SUB, authorize(kind, SUB), keys, CORRELATION)
        assert checked == [kind, kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("service", [None, IN_SERVICE], ids=["plain", "service"])
@pytest.mark.parametrize("is_associating", [False, True])
def test_an_unknown_queue_a_wrong_key_and_a_wrong_kind_cost_one_check_of_the_same_kind(
    kind: KeyKind,
    service: ServiceProof | None,
    is_associating: bool,
    checked: list[KeyKind | None],
) -> None:
    """ACC-72: counted, not timed."""
    good = authorize(kind, SUB)
    wrong_kinds = [[key] for other, key in KEYS.items() if other is not kind]
    for authorization in (good, bytes(len(good))):
        for keys in ([], [b"no key"], [KEYS[kind]], [OTHERS[kind]], *wrong_kinds):
            verifier = Verifier(ROUTER_SESSION, service)
            checked.clear()
            verifier.entity(SUB, authorization, keys, CORRELATION, is_associating=is_associating)
            assert checked == [kind]


@pytest.mark.parametrize("kind", KINDS)
def test_where_there_is_no_key_nothing_is_authorized(
    kind: KeyKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even by whoever has the key that stands in."""
    monkeypatch.setitem(NOBODY, kind, KEYS[kind])
    verifier = Verifier(ROUTER_SESSION)
    assert verifier.entity(SUB, authorize(kind, SUB), [KEYS[kind]], CORRELATION)
    assert not verifier.entity(SUB, authorize(kind, SUB), [], CORRELATION)
    others = [key for other, key in KEYS.items() if other is not kind]
    assert not verifier.entity(SUB, authorize(kind, SUB), others, CORRELATION)


def test_the_keys_that_stand_in_are_of_their_kind_and_not_cheaper_than_others() -> None:
    assert {kind: kind_of(key) for kind, key in NOBODY.items()} == {kind: kind for kind in KINDS}
    assert crypto_core_ed25519_is_valid_point(raw_key(NOBODY[KeyKind.ED25519]))
    assert shared_key(ROUTER_SESSION, raw_key(NOBODY[KeyKind.X25519]))


@given(st.binary(max_size=130), st.lists(st.sampled_from(list(KEYS.values())), max_size=3))
def test_garbage_authorizes_nothing(authorization: bytes, keys: list[bytes]) -> None:
    assert not Verifier(ROUTER_SESSION).entity(SUB, authorization, keys, CORRELATION)


@given(st.integers(0, 255).filter(lambda length: length not in KIND_BY_LENGTH))
def test_an_authorization_of_another_length_authorizes_nothing(length: int) -> None:
    keys = list(KEYS.values())
    assert not Verifier(ROUTER_SESSION).entity(SUB, bytes(length), keys, CORRELATION)


def test_the_sender_of_a_link_is_that_of_the_examples() -> None:
    """WIRE-47"""
    assert link_sender(CORRELATION) == WIRE_47


def test_only_a_key_that_has_authorized_is_agreed_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tries finds out nothing by the time it takes: a wrong authorization of a key that
    exists costs as much each time as that of one that does not."""
    agreed: list[bytes] = []

    def counted(private: bytes, public: bytes) -> bytes:
        agreed.append(public)
        return shared_key(private, public)

    monkeypatch.setattr(proof, "shared_key", counted)
    verifier, key = Verifier(ROUTER_SESSION), dh_spki(SENDER)
    right = authenticator(shared_key(SENDER, public_of(ROUTER_SESSION)), CORRELATION, b"signed")
    for keys in ([], [key]):
        for count in range(1, 4):
            agreed.clear()
            assert not verifier.entity(b"signed", bytes(80), keys, CORRELATION)
            assert (count, len(agreed)) == (count, 1)
    for expected in (1, 0, 0):
        agreed.clear()
        assert verifier.entity(b"signed", right, [key], CORRELATION)
        assert len(agreed) == expected
    many = [bytes([n]) * 32 for n in range(1, proof.SHARED_MAX + 20)]
    for private in many:
        made = authenticator(shared_key(private, public_of(ROUTER_SESSION)), CORRELATION, b"signed")
        assert verifier.entity(b"signed", made, [dh_spki(private)], CORRELATION)
        assert len(verifier._shared) <= proof.SHARED_MAX
