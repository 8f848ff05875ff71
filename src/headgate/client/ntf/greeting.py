"""The greeting of a notification server: its identity, and the version of the protocol.

The certificates are those of TLS and are not repeated in the greeting, as a router repeats them.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any

from headgate.client.smp.greeting import Stream
from headgate.core.model.value import value
from headgate.crypto.keys import (
    KeyKind,
    check_chain,
    fingerprint,
    kind_of,
    leaf_key,
    open_signed_key,
)
from headgate.errors import NoCommonVersion, NotConnected, NotThisRouter, ProtocolError
from headgate.wire.ntf.address import NTF_PROTOCOL
from headgate.wire.ntf.hello import VERSIONS, NtfClientHello, NtfServerHello
from headgate.wire.ntf.transmissions import BLOCK, decode_block, encode_block


@value
class NtfSession:
    """The session of a connection, as both ends know it."""

    id: bytes
    version: int


def ntf_context() -> ssl.SSLContext:
    """TLS 1.3 without authorities: the fingerprint identifies the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([NTF_PROTOCOL])
    return context


async def read_block(stream: Stream) -> bytes:
    """Read a block. Raises `NotConnected` when there is no more."""
    try:
        return await stream.reader.readexactly(BLOCK)
    except asyncio.IncompleteReadError as error:
        raise NotConnected("the notification server closed the connection") from error
    except OSError as error:
        raise NotConnected(f"the connection broke: {error.strerror or error}") from error


async def greet_ntf(stream: Stream, key_hash: bytes) -> NtfSession:
    """Check that this is the server with the fingerprint, and answer it. Raises `NotThisRouter` or
    `NoCommonVersion` before anything was sent, and `NotConnected`."""
    block = await read_block(stream)
    try:
        hello = NtfServerHello.parse(decode_block(block))
        version = _check(hello, stream, key_hash)
    except (NotThisRouter, NoCommonVersion):
        raise
    except ProtocolError as error:
        raise NotThisRouter(str(error)) from error
    stream.write(encode_block(NtfClientHello(version, key_hash).encode()))
    await stream.drain()
    return NtfSession(hello.session_id, version)


def _check(hello: NtfServerHello, stream: Stream, key_hash: bytes) -> int:
    """The common version, once the server has proved its identity on this very connection."""
    if hello.session_id != stream.session_id:
        raise NotThisRouter("the session is not that of the connection")
    version = VERSIONS.common(hello.versions)
    if version is None:
        lowest, highest = hello.versions
        raise NoCommonVersion(f"no common version: the server speaks {lowest} to {highest}")
    chain = shown_chain(stream)
    if len(chain) < 2 or fingerprint(chain) != key_hash:
        raise NotThisRouter("another server: its fingerprint is not the one of the address")
    check_chain(chain, time.time())
    key = open_signed_key(hello.signed_key, leaf_key(chain))
    if kind_of(key) is not KeyKind.X25519:
        raise NotThisRouter("a session key of a wrong kind")
    return version


def shown_chain(stream: Stream) -> list[bytes]:
    """The certificates that the other end sent in TLS, its own first."""
    tls: Any = stream.writer.get_extra_info("ssl_object")
    if hasattr(tls, "get_unverified_chain"):
        return [bytes(der) for der in tls.get_unverified_chain() or ()]
    # Before 3.13 Python has this only internally.
    shown = tls._sslobj.get_unverified_chain() or ()
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in shown]
