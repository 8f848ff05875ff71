"""Router address: the place and the identity of a router, as text and as bytes.

The router prints the text and people pass it on,
``smp://<fingerprint>[:<password>]@<host>[,<host>][:<port>]``. The bytes stand inside links and
confirmations and never have the password.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Sequence
from dataclasses import field
from typing import Final
from urllib.parse import quote, unquote

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.codec.encoding import FieldReader, items, string

DEFAULT_PORT: Final = 5223
SCHEME: Final = "smp://"
KEY_HASH_BYTES: Final = 32
HOSTS_MAX: Final = 255
PORT: Final = re.compile(r"[0-9]{1,5}")
HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,253}\]")
"""A name, or an IPv6 address in brackets: valid as text and as bytes."""


@value
class RouterAddress:
    """Where a router is, and the fingerprint that identifies it.

    A missing port is the default, and stays missing. The password allows creating queues; it is
    never shown.
    """

    hosts: tuple[str, ...]
    written_port: int | None
    key_hash: bytes
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> RouterAddress:
        """Parse the text, or raise `Malformed` naming the error."""
        if not text.startswith(SCHEME):
            raise Malformed(f"the address of a router begins with {SCHEME}")
        who, at, where = text.removeprefix(SCHEME).rstrip("/").partition("@")
        if not at:
            raise Malformed("the address of a router has its fingerprint before the @")
        encoded, colon, password = who.partition(":")
        key_hash = decode_base64(encoded)
        if len(key_hash) != KEY_HASH_BYTES:
            raise Malformed(f"the fingerprint of a router has {KEY_HASH_BYTES} bytes")
        names, port = split_port(where)
        return cls(
            check_hosts(names.split(",")), port, key_hash, unquote(password) if colon else None
        )

    @classmethod
    def read(cls, reader: FieldReader) -> RouterAddress:
        """Read the bytes of an address."""
        hosts = check_hosts([decode_text(host) for host in reader.some(FieldReader.string)])
        port = decode_text(reader.string())
        key_hash = reader.string()
        if len(key_hash) != KEY_HASH_BYTES:
            raise Malformed("no address of a router")
        return cls(hosts, parse_port(port) if port else None, key_hash)

    @property
    def port(self) -> int:
        return DEFAULT_PORT if self.written_port is None else self.written_port

    def encode(self) -> bytes:
        """The bytes, without the password."""
        hosts = items([string(host.encode()) for host in self.hosts])
        port = b"" if self.written_port is None else str(self.written_port).encode()
        return hosts + string(port) + string(self.key_hash)

    @property
    def text(self) -> str:
        """The text without the password, fit to be published."""
        port = "" if self.written_port is None else f":{self.written_port}"
        return f"{SCHEME}{urlsafe_b64encode(self.key_hash).decode()}@{','.join(self.hosts)}{port}"

    @property
    def text_with_password(self) -> str:
        if self.password is None:
            return self.text
        who, _, where = self.text.partition("@")
        return f"{who}:{quote(self.password, safe='')}@{where}"

    def __str__(self) -> str:
        return self.text


def split_port(where: str) -> tuple[str, int | None]:
    """Hosts, and the port behind the last of them. An IPv6 address stands in brackets."""
    _, _, last = where.rpartition(",")
    _, colon, port = last.rpartition(":")
    if not colon or port.endswith("]"):
        return where, None
    return where.removesuffix(f":{port}"), parse_port(port)


def check_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    if len(hosts) > HOSTS_MAX or not all(HOST.fullmatch(host) for host in hosts):
        raise Malformed("the address of a router has names of hosts behind the @")
    return tuple(hosts)


def parse_port(text: str) -> int:
    if not (PORT.fullmatch(text) and 0 < int(text) < 65536):
        raise Malformed("a port is a number from 1 to 65535")
    return int(text)


def decode_text(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("a host or port that is no text") from None


def decode_base64(text: str) -> bytes:
    """URL-safe base64, with its padding or without."""
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return a2b_base64(bare + "=" * (-len(bare) % 4), strict_mode=True)
    except (Base64Error, ValueError):
        raise Malformed("not base64") from None
