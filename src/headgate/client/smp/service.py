"""Services of a client: one self-signed certificate for each router."""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from headgate.core.model.value import value
from headgate.crypto import keys
from headgate.wire.smp.handshake import Role, ServiceHello

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
"""The last date that a certificate can have."""

EARLIER = timedelta(hours=25)
"""Seconds by which the clock of a router may be behind."""


@value
class Service:
    """The long-term certificate of a service, with its key."""

    certificate: bytes
    """DER."""
    private: Ed25519PrivateKey = field(repr=False)

    @property
    def chain(self) -> tuple[bytes, ...]:
        return (self.certificate,)

    @property
    def fingerprint(self) -> bytes:
        return keys.fingerprint(self.chain)

    def hello(self, role: Role, session_key: bytes) -> ServiceHello:
        """The part of a client's hello, for the public half (SPKI) of a fresh Ed25519 key."""
        return ServiceHello(role, self.chain, keys.sign_key(self.private, session_key))


def make_service(now: float) -> Service:
    private = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simplex")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .serial_number(1)
        .public_key(private.public_key())
        .not_valid_before(datetime.fromtimestamp(now, UTC) - EARLIER)
        .not_valid_after(FOREVER)
        .sign(private, None)
    )
    return Service(certificate.public_bytes(Encoding.DER), private)
