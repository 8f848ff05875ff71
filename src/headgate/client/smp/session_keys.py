"""Session keys, agreed on in the greetings, and signing requests with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.client.smp.recipient import Request
from headgate.crypto.box import shared_key
from headgate.crypto.proof import authenticator
from headgate.errors import BadService
from headgate.wire.smp.codec import commands as c
from headgate.wire.smp.codec.ciphers import Cipher
from headgate.wire.smp.codec.transmissions import Transmission, encode, signed

ASSOCIATING = (c.New, c.Sub, c.NSub)
"""Commands that tie a queue to the service of the session."""


@dataclass(slots=True)
class SessionKeys:
    """Session keys of the two ends of one connection. Made by the greetings, owned by the link."""

    session_id: bytes
    version: int
    router_key: bytes
    """The router's key for this session, raw."""
    cipher: Cipher = field(repr=False)
    service_id: bytes | None = None
    """The router's id of the service that the client showed, if it did."""
    service_key: Ed25519PrivateKey | None = field(default=None, repr=False)
    """Signs for the service in this session."""
    fingerprint: bytes = b""
    """The fingerprint of the service's certificate."""

    def encode(self, request: Request, correlation: bytes) -> bytes:
        """The bytes of a request, signed. Raises `BadService` if only a service could send it."""
        command, key = request.command, request.key
        is_associating = isinstance(command, ASSOCIATING)
        if key is None and isinstance(command, c.Subs | c.NSubs):
            key = self.service_key
            if key is None:
                raise BadService("this session has no service")
        raw = command if isinstance(command, bytes) else c.encode_command(command, self.version)
        transmission = Transmission(b"", None, correlation, request.entity, raw)
        if key is None:
            return encode(transmission, self.version)
        over = signed(self.session_id, transmission)
        is_service_signed = request.service_signed
        if is_service_signed is None:
            is_service_signed = is_associating and self.service_key is not None
        by_service = None
        if is_service_signed:
            assert self.service_key is not None, "only a service's session signs"
            by_service = self.service_key.sign(over)
            if is_associating:
                # S001-20: the key of the queue signs for this service only.
                over = self.fingerprint + over
        if isinstance(key, bytes):
            authorization = authenticator(shared_key(key, self.router_key), correlation, over)
        else:
            authorization = key.sign(over)
        whole = Transmission(authorization, by_service, correlation, request.entity, raw)
        return encode(whole, self.version)
