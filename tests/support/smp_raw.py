"""A connection whose hello the test writes itself, and the certificates it shows."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from headgate.client.smp.service import FOREVER, Service
from headgate.client.smp.tls import tls_context
from headgate.crypto import keys
from headgate.wire.smp.codec.blocks import BLOCK
from headgate.wire.smp.codec.ciphers import PlainCipher
from headgate.wire.smp.handshake import ClientHello, ServerHello
from tests.support.smp_router import Rig

PLAIN = PlainCipher()
HOUR = timedelta(hours=1)


class Raw:
    """A connection whose hello the test writes itself. Without a key nothing is encrypted."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: ServerHello
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.hello = hello

    @classmethod
    async def connect(cls, router: Rig, certificate: Service | None) -> Raw:
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(
                router.host, router.port, ssl=tls_context(certificate), limit=BLOCK
            )
            hello = ServerHello.parse(PLAIN.open(await reader.readexactly(BLOCK)))
        return cls(reader, writer, hello)

    async def say(self, hello: ClientHello) -> None:
        await self.send(hello.encode())

    async def send(self, payload: bytes) -> None:
        self.writer.write(PLAIN.seal(payload))
        await self.writer.drain()

    async def block(self) -> bytes:
        async with asyncio.timeout(20):
            return PLAIN.open(await self.reader.readexactly(BLOCK))

    async def is_closed(self) -> bool:
        async with asyncio.timeout(20):
            return await self.reader.read(1) == b""

    def close(self) -> None:
        self.writer.transport.abort()


def session_key() -> bytes:
    return keys.public_key(Ed25519PrivateKey.generate())


def certificate(
    key: Ed25519PrivateKey,
    *,
    issuer: tuple[str, Ed25519PrivateKey] | None = None,
    name: str = "simplex",
    is_authority: bool = False,
    until: datetime = FOREVER,
) -> bytes:
    """A certificate for a key, signed by itself or by an issuer."""
    issuer_name, issuer_key = issuer or (name, key)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer_name)]))
        .serial_number(1)
        .public_key(key.public_key())
        .not_valid_before(datetime.now(UTC) - 48 * HOUR)
        .not_valid_after(until)
    )
    if is_authority:
        builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
    return builder.sign(issuer_key, None).public_bytes(Encoding.DER)


def issued(authority: Ed25519PrivateKey, root: bytes) -> Service:
    """A service whose certificate was issued by another, which is its identity."""

    class Issued(Service):
        @property
        def chain(self) -> tuple[bytes, ...]:
            return (self.certificate, root)

    key = Ed25519PrivateKey.generate()
    leaf = certificate(key, issuer=("authority", authority), name="leaf")
    return Issued(leaf, key)
