"""Transmissions: a command or a reply, the entity it concerns, and its authorization."""

from __future__ import annotations

from typing import Final

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.codec.encoding import FieldReader, maybe_string, string

SERVICES_SINCE: Final = 16
"""The first version in which a service may sign beside the party of a queue."""

SIGNATURE: Final = 64
"""Length of a signature by Ed25519, which services use."""

AUTHENTICATOR: Final = 80
"""Length of the authenticator that replaces a signature for an X25519 key."""

LONG_SIGNATURE: Final = 114
"""Bytes of a signature by Ed448."""

AUTHORIZATIONS: Final = frozenset({0, SIGNATURE, AUTHENTICATOR, LONG_SIGNATURE})


class BadAuthorization(Malformed):
    """An authorization that is neither a signature nor an authenticator. The rest could be read, so
    the answer can name its request."""

    def __init__(self, correlation: bytes) -> None:
        super().__init__("no authorization has this length")
        self.correlation = correlation


@value
class Transmission:
    """A transmission. A router's have no authorization, and no correlation id if unrequested."""

    authorization: bytes
    service_signature: bytes | None
    correlation: bytes
    """Chosen by the client; the answer repeats it."""
    entity: bytes
    """The id of a queue, of one of its parties or of a service; may be empty."""
    command: bytes


def parse(data: bytes, version: int) -> Transmission:
    """Parse a transmission of a client."""
    reader = FieldReader(data)
    authorization = reader.string()
    service_signature = None
    # S001-4: before version 16 there is one signature.
    if authorization and version >= SERVICES_SINCE:
        service_signature = reader.maybe(FieldReader.string)
        if service_signature is not None and len(service_signature) != SIGNATURE:
            raise Malformed("no service signs with this length")
    correlation = reader.string()
    entity = reader.string()
    if len(authorization) not in AUTHORIZATIONS:
        raise BadAuthorization(correlation)
    return Transmission(authorization, service_signature, correlation, entity, reader.rest())


def parse_reply(data: bytes) -> Transmission:
    """Parse a transmission of a router."""
    reader = FieldReader(data)
    if reader.byte():
        raise Malformed("a router authorizes nothing")
    return Transmission(b"", None, reader.string(), reader.string(), reader.rest())


def encode(transmission: Transmission, version: int) -> bytes:
    """The bytes, for either direction."""
    # WIRE-18..WIRE-21, WIRE-24, WIRE-27: authorization, the service's if there is one, then the
    # rest.
    authorization = string(transmission.authorization)
    if transmission.authorization and version >= SERVICES_SINCE:
        authorization += maybe_string(transmission.service_signature)
    return authorization + _rest(transmission)


def encode_unsigned(correlation: bytes, entity: bytes, command: bytes) -> bytes:
    """Encode without an authorization, as the router sends all of its own, with the least
    work."""
    return b"".join((b"\0", string(correlation), string(entity), command))


def signed(session_id: bytes, transmission: Transmission) -> bytes:
    """The bytes that an authorization covers. The session id is not sent, but is one of them: what
    was signed for one session is invalid in another."""
    # S001-18: invalid in another session.
    # WIRE-17: the session id is signed though it is not sent.
    return string(session_id) + _rest(transmission)


def _rest(transmission: Transmission) -> bytes:
    return b"".join(
        (string(transmission.correlation), string(transmission.entity), transmission.command)
    )
