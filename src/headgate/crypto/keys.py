"""Public keys in the form of the wire, signatures by them, and certificates.

A public key travels as the DER of its SubjectPublicKeyInfo. For the three kinds in use this is a
fixed prefix and the raw key, so no DER parser is needed to tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from hashlib import sha256
from itertools import pairwise
from typing import Final, TypeAlias
from warnings import catch_warnings

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey, Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.utils import CryptographyDeprecationWarning
from nacl.bindings import crypto_sign_open
from nacl.exceptions import CryptoError

from headgate.errors import Malformed

ED25519: Final = bytes.fromhex("302a300506032b6570032100")
X25519: Final = bytes.fromhex("302a300506032b656e032100")
ED448: Final = bytes.fromhex("3043300506032b6571033a00")
"""The beginning of a public key's DER; the raw key follows, and nothing else."""

KEY_BYTES: Final = {ED25519: 44, X25519: 44, ED448: 69}
"""The kinds of keys that a party of a queue may have, by the length of their DER."""

PREFIX: Final = 12
"""The length of each of these beginnings."""

SigningKey: TypeAlias = Ed25519PrivateKey | Ed448PrivateKey
"""A private key that can sign: a certificate's, a queue's, or that of a service's session."""

CHAIN_MAX = 4
"""Certificates in a chain: leaf, identity, and up to two above it."""


class KeyKind(Enum):
    """The use of a key. The value is the beginning of its DER."""

    ED25519 = ED25519
    ED448 = ED448
    X25519 = X25519


KINDS = {(KEY_BYTES[kind.value], kind.value): kind for kind in KeyKind}
"""By the length and the prefix of the DER."""

SIGNATURE_BYTES = {KeyKind.ED25519: 64, KeyKind.ED448: 114}

ALGORITHMS = {
    KeyKind.ED25519: bytes.fromhex("300506032b6570"),
    KeyKind.ED448: bytes.fromhex("300506032b6571"),
}
"""The AlgorithmIdentifier in a signed key, by the signer's kind."""


def kind_of(spki: bytes) -> KeyKind | None:
    return KINDS.get((len(spki), spki[:PREFIX]))


def raw_key(spki: bytes) -> bytes:
    return spki[PREFIX:]


def encode_key(kind: KeyKind, raw: bytes) -> bytes:
    # WIRE-1..WIRE-5: the DER of a kind is one fixed beginning and the raw key.
    spki = kind.value + raw
    assert kind_of(spki) is kind, "a raw key has the length of its kind"
    return spki


def public_key(private: SigningKey) -> bytes:
    """The public half of a signing key, in the form of the wire."""
    return private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def verify(spki: bytes, message: bytes, signature: bytes) -> bool:
    """Whether this Ed25519 or Ed448 key made the signature; one of a wrong length is not
    checked."""
    kind = kind_of(spki)
    if kind is None or SIGNATURE_BYTES.get(kind) != len(signature):
        return False
    try:
        if kind is KeyKind.ED25519:
            crypto_sign_open(signature + message, raw_key(spki))  # half the time that OpenSSL takes
        else:
            Ed448PublicKey.from_public_bytes(raw_key(spki)).verify(signature, message)
    except (CryptoError, InvalidSignature, ValueError):
        return False
    return True


def sign_key(private: SigningKey, spki: bytes) -> bytes:
    """A key signed by another, as a certificate signs a session's key."""
    kind = kind_of(public_key(private))
    assert kind is not None, "every signing key has a known kind"
    # WIRE-7: the key, the algorithm of its signer, and the signature.
    return _signed_key(spki, kind, private.sign(spki))


def open_signed_key(der: bytes, signer: bytes) -> bytes:
    """The key inside, after checking the signer's signature."""
    kind = kind_of(signer)
    if kind not in SIGNATURE_BYTES:
        raise Malformed("a key is signed by an Ed25519 or Ed448 key")
    size = SIGNATURE_BYTES[kind]
    # SEQUENCE { SPKI, AlgorithmIdentifier, BIT STRING }: the signer determines the lengths of the
    # last two.
    head = 2 if len(der) < 2 + 0x80 else 3
    tail = len(der) - size - len(_before_signature(kind))
    spki, signature = der[head : max(head, tail)], der[-size:]
    if kind_of(spki) is None or _signed_key(spki, kind, signature) != der:
        raise Malformed("not a signed key")
    if not verify(signer, spki, signature):
        raise Malformed("the key is not signed by its certificate")
    return spki


def fingerprint(chain: Sequence[bytes]) -> bytes:
    """The SHA-256 of the identity certificate: the second one, or the only one."""
    _check_length(chain)
    # WIRE-22: of the identity, not of the leaf.
    return sha256(chain[1] if len(chain) > 1 else chain[0]).digest()


def check_chain(chain: Sequence[bytes], now: float) -> None:
    """Raises if a chain, leaf first, is too long, not of one piece, or not valid at this time.

    A lone certificate is signed by itself. The signature of the last one in a longer chain is not
    checked: it is the anchor, known by its fingerprint if at all.
    """
    _check_length(chain)
    with _judging():
        certificates = [x509.load_der_x509_certificate(der) for der in chain]
        for der, certificate in zip(chain, certificates, strict=True):
            # The count of unused bits is neither signed nor checked by the library; an identity is
            # a hash, so only one encoding may be valid.
            if not der.endswith(b"\0" + certificate.signature):
                raise Malformed("a certificate with unused bits in its signature")
            opens = certificate.not_valid_before_utc.timestamp()
            if not opens <= now <= certificate.not_valid_after_utc.timestamp():
                raise Malformed("a certificate is not valid at this time")
        for certificate, issuer in pairwise(certificates):
            if not issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
                raise Malformed("a certificate is issued by one that is no CA")
            _check_issued(certificate, issuer)
        if len(certificates) == 1:
            _check_issued(certificates[0], certificates[0])


def leaf_key(chain: Sequence[bytes]) -> bytes:
    """The public key of the leaf."""
    _check_length(chain)
    with _judging():
        return _key(x509.load_der_x509_certificate(chain[0]))


@contextmanager
def _judging() -> Iterator[None]:
    """A context in which all errors of the library about a certificate, warnings included, are the
    peer's."""
    try:
        with catch_warnings(action="error", category=CryptographyDeprecationWarning):
            yield
    except x509.ExtensionNotFound as error:
        raise Malformed("a certificate is issued by one that is no CA") from error
    except InvalidSignature as error:
        raise Malformed("a certificate is not signed by the next in its chain") from error
    except Malformed:
        raise
    except Exception as error:  # the library's exceptions have no common base
        raise Malformed(f"a certificate cannot be used: {error}") from error


def _signed_key(spki: bytes, signer: KeyKind, signature: bytes) -> bytes:
    body = spki + _before_signature(signer) + signature
    size = bytes([len(body)]) if len(body) < 0x80 else bytes([0x81, len(body)])
    return b"\x30" + size + body


def _before_signature(signer: KeyKind) -> bytes:
    """The algorithm, and the head of a BIT STRING without unused bits."""
    return ALGORITHMS[signer] + bytes([0x03, 1 + SIGNATURE_BYTES[signer], 0])


def _check_length(chain: Sequence[bytes]) -> None:
    if not 1 <= len(chain) <= CHAIN_MAX:
        raise Malformed(f"a chain of {len(chain)} certificates, not of 1 to {CHAIN_MAX}")


def _check_issued(certificate: x509.Certificate, issuer: x509.Certificate) -> None:
    _key(issuer)  # with other algorithms a peer could choose how long a check takes
    certificate.verify_directly_issued_by(issuer)


def _key(certificate: x509.Certificate) -> bytes:
    key = certificate.public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if kind_of(spki) not in SIGNATURE_BYTES:
        raise Malformed("a certificate with a key that is neither Ed25519 nor Ed448")
    return spki
