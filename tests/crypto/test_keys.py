"""Keys on the wire, keys that sign keys, and chains of certificates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.client.smp.service import make_service
from headgate.crypto.keys import (
    KeyKind,
    SigningKey,
    check_chain,
    encode_key,
    fingerprint,
    kind_of,
    leaf_key,
    open_signed_key,
    public_key,
    raw_key,
    sign_key,
    verify,
)
from headgate.errors import Malformed
from headgate.wire.smp.handshake import Role
from tests.support.smp_parties import (
    CA,
    CA_CERTIFICATE,
    CLIENT_SESSION,
    LEAF,
    LEAF_CERTIFICATE,
    NOW,
    RECIPIENT,
    RECIPIENT_DH,
    ROUTER_SESSION,
    SENDER,
    SERVICE,
    SERVICE_CERTIFICATE,
    dh_spki,
)

WIRE_1 = bytes.fromhex(
    "302a300506032b65700321008a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
)
WIRE_2 = bytes.fromhex(
    "302a300506032b656e0321007b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13"
)
WIRE_3 = bytes.fromhex(
    "302a300506032b656e0321000faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f20"
)
WIRE_4 = bytes.fromhex(
    "302a300506032b656e0321007b0d47d93427f8311160781c7c733fd89f88970aef490d8aa0ee19a4cb8a1b14"
)
WIRE_5 = bytes.fromhex(
    "302a300506032b656e03210038ab664bd86f77d7e66bdd9ae0792913a94fd8b33a1260027e4b46c1f4884c67"
)
WIRE_7 = bytes.fromhex(
    "3076302a300506032b656e0321007b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f7"
    "3f13300506032b657003410094a034de26634fceb120b25e7da33a8a2f55cd258840f62f477f653a050f869c"
    "0311ed76d59cb0acb218be8816112a77d54e6531edb500d224b6fcef32df4303"
)
WIRE_22 = bytes.fromhex("617a09b8cb1a0f8eb4e22e718196f9a084bfa2e824e0ff6ba19188243bc00747")
ED448 = Ed448PrivateKey.generate()
CHAIN = (LEAF_CERTIFICATE, CA_CERTIFICATE)
SIGNED = b"what is signed"

SIGNERS = st.sampled_from([LEAF, ED448])
SPKIS = st.sampled_from([WIRE_1, WIRE_2, public_key(ED448)])


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def issued(
    subject: str,
    key: SigningKey,
    issuer: str,
    issuer_key: SigningKey,
    *,
    ca: bool | None = True,
    years: tuple[int, int] = (2020, 2090),
) -> bytes:
    """A certificate; `ca` says what stands in it about that, if anything does."""
    first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in years)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .serial_number(7)
        .public_key(key.public_key())
        .not_valid_before(first)
        .not_valid_after(last)
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
    return builder.sign(issuer_key, None).public_bytes(Encoding.DER)


def test_public_keys_are_written_as_the_examples_write_them() -> None:
    """WIRE-1..WIRE-5"""
    assert public_key(RECIPIENT) == WIRE_1
    keys = [ROUTER_SESSION, CLIENT_SESSION, RECIPIENT_DH, SENDER]
    assert [dh_spki(key) for key in keys] == [WIRE_2, WIRE_3, WIRE_4, WIRE_5]


def test_the_kind_of_a_key_is_read_from_its_prefix_and_length() -> None:
    assert kind_of(WIRE_1) is KeyKind.ED25519
    assert kind_of(WIRE_2) is KeyKind.X25519
    assert kind_of(public_key(ED448)) is KeyKind.ED448
    assert kind_of(WIRE_1[:-1]) is None
    assert kind_of(WIRE_1 + b"\0") is None
    assert kind_of(b"") is None
    x448 = bytes.fromhex("3042300506032b656f033900") + bytes(56)
    assert kind_of(x448) is None


@pytest.mark.parametrize(("kind", "size"), [("ED25519", 32), ("ED448", 57), ("X25519", 32)])
def test_a_raw_key_comes_back_out_of_its_der(kind: str, size: int) -> None:
    raw = bytes(range(size))
    spki = encode_key(KeyKind[kind], raw)
    assert (kind_of(spki), raw_key(spki)) == (KeyKind[kind], raw)


@given(st.binary(max_size=80))
def test_any_bytes_can_be_asked_for_their_kind(data: bytes) -> None:
    assert kind_of(data) is None


@pytest.mark.parametrize("private", [RECIPIENT, ED448], ids=["Ed25519", "Ed448"])
def test_a_signature_is_verified_by_its_key_and_no_other(private: SigningKey) -> None:
    spki, signature = public_key(private), private.sign(SIGNED)
    assert verify(spki, SIGNED, signature)
    assert not verify(spki, SIGNED + b"!", signature)
    assert not verify(spki, SIGNED, signature[:-1])
    assert not verify(spki, SIGNED, b"")
    assert not verify(WIRE_1 if private is ED448 else public_key(LEAF), SIGNED, signature)
    assert not verify(public_key(Ed448PrivateKey.generate()), SIGNED, signature)


def test_a_key_that_cannot_sign_verifies_nothing() -> None:
    signature = RECIPIENT.sign(SIGNED)
    assert not verify(WIRE_2, SIGNED, signature)
    assert not verify(b"", SIGNED, signature)
    assert not verify(WIRE_1[:-1], SIGNED, signature)


@pytest.mark.parametrize("kind", [KeyKind.ED25519, KeyKind.ED448])
def test_a_key_that_is_no_point_of_its_curve_verifies_nothing(kind: KeyKind) -> None:
    key, signature = {KeyKind.ED25519: (32, 64), KeyKind.ED448: (57, 114)}[kind]
    assert not verify(encode_key(kind, b"\xff" * key), SIGNED, bytes(signature))


def test_the_key_of_a_router_session_is_signed_as_in_the_example() -> None:
    """WIRE-7"""
    assert sign_key(LEAF, WIRE_2) == WIRE_7
    assert open_signed_key(WIRE_7, public_key(LEAF)) == WIRE_2


@given(SIGNERS, SPKIS)
def test_a_signed_key_opens_with_its_signer(private: SigningKey, spki: bytes) -> None:
    assert open_signed_key(sign_key(private, spki), public_key(private)) == spki


@given(SIGNERS, SPKIS, st.data())
def test_a_signed_key_with_a_flipped_bit_does_not_open(
    private: SigningKey, spki: bytes, data: st.DataObject
) -> None:
    der = bytearray(sign_key(private, spki))
    bit = data.draw(st.integers(0, len(der) * 8 - 1))
    der[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Malformed):
        open_signed_key(bytes(der), public_key(private))


@given(SIGNERS, st.binary(max_size=200))
@example(LEAF, b"")
@example(LEAF, WIRE_7[:-1])
@example(LEAF, WIRE_7 + b"\0")
@example(LEAF, b"\x30\x81" + WIRE_7[1:])
@example(ED448, WIRE_7)
def test_garbage_is_no_signed_key(private: SigningKey, der: bytes) -> None:
    with pytest.raises(Malformed):
        open_signed_key(der, public_key(private))


def test_a_key_signed_by_another_certificate_does_not_open() -> None:
    """S001-14"""
    with pytest.raises(Malformed, match="not signed by its certificate"):
        open_signed_key(WIRE_7, public_key(CA))


def test_a_key_that_cannot_sign_is_no_signer() -> None:
    with pytest.raises(Malformed, match="Ed25519 or Ed448"):
        open_signed_key(WIRE_7, WIRE_2)


def test_the_fingerprint_is_that_of_the_second_certificate_or_the_only_one() -> None:
    """WIRE-22"""
    assert fingerprint([SERVICE_CERTIFICATE]) == WIRE_22
    identity = sha256(CA_CERTIFICATE).digest()
    assert identity.hex().startswith("9abd")
    assert fingerprint(CHAIN) == identity
    assert fingerprint([*CHAIN, SERVICE_CERTIFICATE]) == identity
    assert fingerprint([*CHAIN, SERVICE_CERTIFICATE, SERVICE_CERTIFICATE]) == identity


@pytest.mark.parametrize("length", [0, 5])
@pytest.mark.parametrize(
    "use",
    [fingerprint, leaf_key, lambda chain: check_chain(chain, NOW)],
    ids=["fingerprint", "leaf_key", "check_chain"],
)
def test_a_chain_has_one_to_four_certificates(
    use: Callable[[list[bytes]], object], length: int
) -> None:
    with pytest.raises(Malformed, match="1 to 4"):
        use([SERVICE_CERTIFICATE] * length)


def test_the_leaf_key_is_that_of_the_first_certificate() -> None:
    assert leaf_key(CHAIN) == public_key(LEAF)
    assert leaf_key([SERVICE_CERTIFICATE]) == public_key(SERVICE)


def test_the_chains_of_the_examples_are_good() -> None:
    check_chain(CHAIN, NOW)
    check_chain([SERVICE_CERTIFICATE], NOW)


def test_the_certificate_of_a_service_is_good_now_and_for_the_rest_of_its_life() -> None:
    service = make_service(NOW)
    for later in (-86_400, 0, 10**9, 200 * 10**9):
        check_chain(service.chain, NOW + later)
    with pytest.raises(Malformed, match="not valid at this time"):
        check_chain(service.chain, NOW - 90_001)
    certificate = x509.load_der_x509_certificate(service.certificate)
    assert certificate.serial_number == 1
    assert certificate.subject == certificate.issuer == name("simplex")
    assert not list(certificate.extensions)
    assert leaf_key(service.chain) == public_key(service.private)
    assert service.fingerprint == sha256(service.certificate).digest()
    hello = service.hello(Role.NOTIFIER, WIRE_1)
    assert (hello.role, hello.chain) == (Role.NOTIFIER, service.chain)
    assert open_signed_key(hello.signed_key, leaf_key(hello.chain)) == WIRE_1


def test_chains_of_three_and_four_are_good_if_each_is_signed_by_the_next() -> None:
    keys: list[SigningKey] = [Ed25519PrivateKey.generate(), ED448, Ed25519PrivateKey.generate(), CA]
    names = ["leaf", "identity", "middle", "top"]
    chain = [
        issued(names[at], keys[at], names[above], keys[above], ca=at > 0)
        for at, above in ((0, 1), (1, 2), (2, 3), (3, 3))
    ]
    check_chain(chain, NOW)
    check_chain(chain[:3], NOW)  # the last is the anchor; who signed it is not asked
    with pytest.raises(Malformed):
        check_chain([chain[0], chain[2], chain[3]], NOW)
    with pytest.raises(Malformed):
        check_chain(chain[::-1], NOW)


def test_a_lone_certificate_that_another_signed_is_refused() -> None:
    with pytest.raises(Malformed):
        check_chain([LEAF_CERTIFICATE], NOW)


def test_a_certificate_with_the_right_issuer_name_and_the_wrong_signature_is_refused() -> None:
    forged = issued("leaf", LEAF, "SMP server CA", SERVICE, ca=False)
    with pytest.raises(Malformed, match="not signed by the next"):
        check_chain([forged, CA_CERTIFICATE], NOW)


@pytest.mark.parametrize("ca", [False, None])
def test_a_certificate_that_is_no_ca_issues_none(ca: bool | None) -> None:
    above = issued("above", CA, "above", CA, ca=ca)
    below = issued("below", LEAF, "above", CA, ca=None)
    with pytest.raises(Malformed, match="no CA"):
        check_chain([below, above], NOW)


@pytest.mark.parametrize("years", [(2000, 2001), (2080, 2090)])
@pytest.mark.parametrize("place", [0, 1])
def test_every_certificate_of_a_chain_must_be_valid_now(years: tuple[int, int], place: int) -> None:
    wrong = [(2020, 2090), (2020, 2090)]
    wrong[place] = years
    chain = [
        issued("leaf", LEAF, "ca", CA, ca=False, years=wrong[0]),
        issued("ca", CA, "ca", CA, years=wrong[1]),
    ]
    with pytest.raises(Malformed, match="not valid at this time"):
        check_chain(chain, NOW)


def test_certificates_of_other_algorithms_are_refused() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name("simplex"))
        .issuer_name(name("simplex"))
        .serial_number(1)
        .public_key(private.public_key())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2090, 1, 1, tzinfo=UTC))
        .sign(private, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )
    with pytest.raises(Malformed, match="neither Ed25519 nor Ed448"):
        check_chain([certificate], NOW)
    with pytest.raises(Malformed, match="neither Ed25519 nor Ed448"):
        leaf_key([certificate])


@given(st.integers(0, len(SERVICE_CERTIFICATE) * 8 - 1))
@example(80)  # version 4: an exception of its own
@example(104)  # serial number 0: the library only warns
@example(1168)  # unused bits of the signature: the library does not mind
def test_a_certificate_with_a_flipped_bit_is_refused(bit: int) -> None:
    der = bytearray(SERVICE_CERTIFICATE)
    der[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Malformed):
        check_chain([bytes(der)], NOW)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_garbage_is_no_chain(chain: list[bytes]) -> None:
    with pytest.raises(Malformed):
        check_chain(chain, NOW)
    with pytest.raises(Malformed):
        leaf_key(chain)
