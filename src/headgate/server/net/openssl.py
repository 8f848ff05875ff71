"""TLS for clients that are known by their certificates.

Python's own `ssl` refuses every certificate that no known authority signed, and a service signs its
certificate itself. pyOpenSSL lets us request it and judge it ourselves; it works on the
non-blocking socket, and buffers nothing between records.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

from cryptography.x509 import load_der_x509_certificate
from OpenSSL import SSL, crypto

from headgate.server.identity import Identity
from headgate.wire.smp.session import Peer

PROTOCOLS = (b"smp/1", b"http/1.1")
"""Names of the protocol in ALPN. Clients send the second on the port of HTTPS."""
CIPHERS = b"TLS_CHACHA20_POLY1305_SHA256"
"""The one that every client offers."""
RECORD_BYTES = 16_384
"""Size of a TLS record; reading more at once would only need a larger buffer."""


def smp_context(identity: Identity, protocols: Sequence[bytes] = PROTOCOLS) -> SSL.Context:
    """TLS 1.3 without resumption: a resumed session would have no channel binding of its own."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.set_tls13_ciphersuites(CIPHERS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    leaf, *above = map(load_der_x509_certificate, identity.chain)
    context.use_certificate(leaf)
    for certificate in above:
        context.add_extra_chain_cert(certificate)
    context.use_privatekey(identity.private)
    # Requested, not required; it is checked when the client claims to be a service.
    context.set_verify(SSL.VERIFY_PEER, lambda *_: True)
    context.set_alpn_select_callback(lambda _, offered: _protocol(protocols, offered))
    return context


def _protocol(known: Sequence[bytes], offered: list[bytes]) -> bytes:
    for name in known:
        if name in offered:
            return name
    raise OSError("no such protocol")  # then OpenSSL reports it to the client and gives up


def _der(certificate: crypto.X509) -> bytes:
    return crypto.dump_certificate(crypto.FILETYPE_ASN1, certificate)


class OpenSslPipe:
    """A socket with TLS by OpenSSL, from the handshake on."""

    __slots__ = ("_connection", "_socket", "fileno", "pending")

    def __init__(self, context: SSL.Context, connected: socket.socket) -> None:
        self._socket = connected
        self._connection = SSL.Connection(context, connected)
        self._connection.set_accept_state()
        self.fileno = connected.fileno
        self.pending = self._connection.pending

    def do_handshake(self) -> None:
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            raise ssl.SSLWantReadError from None
        except SSL.WantWriteError:
            raise ssl.SSLWantWriteError from None
        except SSL.Error as error:
            raise OSError("the handshake failed") from error

    def peer(self) -> Peer:
        connection = self._connection
        # The certificate is not parsed here: OpenSSL reads some that cannot be.
        certificate = connection.get_peer_certificate()
        chain = [] if certificate is None else [_der(certificate)]
        chain += [
            der for der in map(_der, connection.get_peer_cert_chain() or []) if der != chain[0]
        ]
        return Peer(
            session_id=connection.get_peer_finished() or b"",
            has_protocol=bool(connection.get_alpn_proto_negotiated()),
            chain=tuple(chain),
        )

    def recv(self, size: int) -> bytes:
        try:
            return self._connection.recv(RECORD_BYTES)
        except (SSL.WantReadError, SSL.WantWriteError):
            raise BlockingIOError from None
        except (SSL.ZeroReturnError, SSL.SysCallError):
            return b""
        except SSL.Error as error:
            raise OSError("broken TLS") from error

    def send(self, data: bytes | memoryview) -> int:
        """Send as much as the socket takes; OpenSSL itself would stop after a record."""
        view, sent = memoryview(data), 0
        try:
            while sent < len(view):
                sent += self._connection.send(view[sent : sent + RECORD_BYTES])
        except (SSL.WantReadError, SSL.WantWriteError):
            if not sent:
                raise BlockingIOError from None
        except SSL.Error as error:
            raise OSError("broken TLS") from error
        return sent

    def finish(self) -> None:
        with suppress(SSL.Error):
            self._connection.shutdown()
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()
