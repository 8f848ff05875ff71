"""Address of a notification server, as text: ``ntf://<fingerprint>@<host>[,<host>][:<port>]``."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.codec.router_address import KEY_HASH_BYTES, decode_base64, split_port

NTF_PORT: Final = 443
NTF_SCHEME: Final = "ntf://"
NTF_PROTOCOL: Final = "ntf/1"
"""The protocol's name in ALPN. A peer that does not name it could only speak version 1, which is
not supported."""


@value
class NtfAddress:
    """Where a notification server is, and the fingerprint by which it is known."""

    hosts: tuple[str, ...]
    written_port: int | None
    key_hash: bytes

    @classmethod
    def parse(cls, text: str) -> NtfAddress:
        """Read the text, or raise `Malformed` with what is wrong in it."""
        if not text.startswith(NTF_SCHEME):
            raise Malformed(f"the address of a notification server begins with {NTF_SCHEME}")
        encoded, at, where = text.removeprefix(NTF_SCHEME).rstrip("/").partition("@")
        if not at:
            raise Malformed("the address of a notification server has its fingerprint before the @")
        key_hash = decode_base64(encoded)
        if len(key_hash) != KEY_HASH_BYTES:
            raise Malformed(f"the fingerprint of a notification server has {KEY_HASH_BYTES} bytes")
        names, port = split_port(where)
        hosts = tuple(names.split(","))
        if not all(hosts):
            raise Malformed("the address of a notification server has a host behind the @")
        return cls(hosts, port, key_hash)

    @property
    def port(self) -> int:
        return NTF_PORT if self.written_port is None else self.written_port

    @property
    def text(self) -> str:
        port = "" if self.written_port is None else f":{self.written_port}"
        key_hash = urlsafe_b64encode(self.key_hash).decode()
        return f"{NTF_SCHEME}{key_hash}@{','.join(self.hosts)}{port}"

    def __str__(self) -> str:
        return self.text
