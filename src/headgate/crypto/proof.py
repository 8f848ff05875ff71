"""Checks of the authorization of a transmission.

`transmissions.signed` has the authorized bytes: the transmission behind the session id, so that it
is worthless on another connection. In a service's session the commands that associate a queue are
authorized behind the fingerprint of the service as well.

The delay of an answer must not reveal whether a queue exists. So a check is made in any case: if
there is no key, or none of the right kind, a key without an owner takes its place.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha3_384, sha512
from hmac import compare_digest

from headgate.core.model.value import value
from headgate.crypto.box import box, nonce_of, shared_key
from headgate.crypto.keys import KeyKind, kind_of, raw_key, verify
from headgate.errors import Malformed

# ACC-16: three kinds of keys.
KIND_BY_LENGTH = {64: KeyKind.ED25519, 114: KeyKind.ED448, 80: KeyKind.X25519}
"""The kind of key of an authorization, by its length."""

NOBODY = {
    KeyKind.ED25519: b64decode("MCowBQYDK2VwAyEA139Oqs4QgpqbAmB0o7rZf6T19ryl7E65k4AYe0kE3Qs="),
    KeyKind.ED448: b64decode(
        "MEMwBQYDK2VxAzoA6ibQc9XpkSLtwrf7PLvp81qW/etiumckVFImCMRdftcG/XopbOSaq9qyLhrgJWKOLyNrQPNVvpMA"
    ),
    KeyKind.X25519: b64decode("MCowBQYDK2VuAyEA4JGSMYht18H4mas/jHeBwfcM7jLwNYJNOAhi2/g4RXg="),
}
"""Keys for checks without a key. No check with them succeeds."""

LINK_SENDER_BYTES = 24

SHARED_MAX = 64
"""Senders' keys whose shared secret a session remembers. Agreeing on one takes half as long as all
the rest of authorizing a SEND."""


@value
class ServiceProof:
    """The proof of a service, from its handshake."""

    fingerprint: bytes
    session_key: bytes
    """Ed25519, as SPKI; made for this connection."""


def authenticator(key: bytes, correlation: bytes, signed: bytes) -> bytes:
    """The authorization by an X25519 key. Either side could have made it, so it proves nothing to
    others. `key` is `shared_key` of the queue's key and the router's session key."""
    # WIRE-26: a sealed digest in place of a signature.
    return box(key, nonce_of(correlation), sha512(signed).digest())


def link_sender(correlation: bytes) -> bytes:
    """The sender id of a queue made with link data: its creator cannot choose it freely."""
    # WIRE-47: derived from the correlation id.
    return sha3_384(correlation).digest()[:LINK_SENDER_BYTES]


class Verifier:
    """Checks the authorizations of one session."""

    __slots__ = ("_private", "_service", "_shared")

    def __init__(self, private: bytes, service: ServiceProof | None = None) -> None:
        """`private` is the router's X25519 key of this session, raw."""
        self._private = private
        self._service = service
        self._shared: dict[bytes, bytes] = {}
        """Shared secrets of keys that have authorized a command here. Only those: a faster check
        must not reveal to other clients that a key exists."""

    @property
    def secrets(self) -> tuple[bytes, ServiceProof | None]:
        """The data for another verifier to make the same checks."""
        return self._private, self._service

    def entity(
        self,
        signed: bytes,
        authorization: bytes,
        keys: Sequence[bytes],
        correlation: bytes,
        *,
        is_associating: bool = False,
    ) -> bool:
        """Whether one of these keys authorized the transmission.

        All keys of the right kind are tried, also after one that succeeds. `is_associating` is true
        of the commands that tie a queue to the service of the session, if it has one.
        """
        kind = KIND_BY_LENGTH.get(len(authorization))
        if kind is None:
            return False
        if is_associating and self._service is not None:
            # S001-20: the key of the queue signs for this service only.
            signed = self._service.fingerprint + signed
        check = self._is_authenticator if kind is KeyKind.X25519 else _is_signature
        of_kind = [key for key in keys if kind_of(key) is kind]
        # ACC-72: without a key one that cannot succeed is tried, which takes as long.
        fits = [check(key, signed, authorization, correlation) for key in of_kind or [NOBODY[kind]]]
        return any(fits) and bool(of_kind)

    def service(self, signed: bytes, signature: bytes) -> bool:
        """Whether the service of this session signed the transmission."""
        if self._service is None:
            return False
        # S001-17, S001-21: by the session's key, over the transmission alone.
        return verify(self._service.session_key, signed, signature)

    def _is_authenticator(
        self, key: bytes, signed: bytes, authorization: bytes, correlation: bytes
    ) -> bool:
        shared = self._shared.get(key)
        if shared is None:
            try:
                shared = shared_key(self._private, raw_key(key))
            except Malformed:
                return False
        # Making it again and comparing takes as long for a wrong one as for the right one.
        fits = compare_digest(authenticator(shared, correlation, signed), authorization)
        if fits:
            if len(self._shared) >= SHARED_MAX:
                self._shared.clear()
            self._shared[key] = shared
        return fits


def _is_signature(key: bytes, signed: bytes, authorization: bytes, correlation: bytes) -> bool:
    return verify(key, signed, authorization)
