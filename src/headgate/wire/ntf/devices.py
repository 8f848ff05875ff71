"""Devices: where pushes for an app go, and through which provider.

Anybody who knows the name of a device can disturb its owner, so it is never shown.
"""

from __future__ import annotations

import re
from dataclasses import field
from enum import Enum
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.crypto.p256 import decode_point
from headgate.errors import Malformed
from headgate.wire.smp.codec.encoding import FieldReader, string

AUTH_BYTES: Final = 16
HTTPS_PORT: Final = 443

HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]"
PORT: Final = r"[1-9][0-9]{0,4}"
PATH: Final = r"/[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*"
HOST_FORM: Final = re.compile(HOST)
PORT_FORM: Final = re.compile(PORT)
PATH_FORM: Final = re.compile(PATH)
URL_FORM: Final = re.compile(rf"https://({HOST})(?::({PORT}))?({PATH})?")
"""Only what a URL may hold, so that nothing in a device can become a header or another request."""


class Provider(Enum):
    """The provider that brings a push to a device. The value is what a device begins with."""

    APNS_SANDBOX = b"AD"
    APNS = b"AP"
    APNS_TEST = b"AT"
    NULL = b"AN"
    """Takes every push and brings none: for whoever tries a server."""
    WEB_PUSH = b"WP"


@value
class ApnsDevice:
    """A device of Apple's, or of the providers that are written like Apple's."""

    provider: Provider
    token: bytes = field(repr=False)
    """Any bytes. Apple's are hexadecimal digits in lower case."""

    def encode(self) -> bytes:
        return self.provider.value + string(self.token)


@value
class WebPushDevice:
    """An endpoint of Web Push, with the keys of whoever reads there."""

    host: str
    written_port: int | None
    path: str = field(repr=False)
    """With its query, if it has one."""
    auth: bytes = field(repr=False)
    key: bytes = field(repr=False)
    """A point of P-256."""

    @classmethod
    def of(cls, url: str, auth: bytes, key: bytes) -> WebPushDevice:
        """The device of an endpoint as browsers and UnifiedPush give it, or `Malformed`."""
        match = URL_FORM.fullmatch(url)
        if match is None:
            raise Malformed("an endpoint is an https URL without a fragment")
        host, port, path = match.groups()
        return cls._checked(host, port or "", path or "/", auth, key)

    @classmethod
    def read(cls, reader: FieldReader) -> WebPushDevice:
        host, port, path = (_text(reader.string()) for _ in range(3))
        return cls._checked(host, port, path, reader.string(), reader.string())

    @classmethod
    def _checked(cls, host: str, port: str, path: str, auth: bytes, key: bytes) -> WebPushDevice:
        if HOST_FORM.fullmatch(host) is None or PATH_FORM.fullmatch(path) is None:
            raise Malformed("no host or no path of an endpoint")
        if max(len(host), len(path)) > 255:
            raise Malformed("an endpoint that is too long")
        if port and (PORT_FORM.fullmatch(port) is None or int(port) > 65535):
            raise Malformed("no port of an endpoint")
        if len(auth) != AUTH_BYTES:
            raise Malformed(f"the secret of an endpoint has {AUTH_BYTES} bytes")
        decode_point(key)
        return cls(host, int(port) if port else None, path, auth, key)

    @property
    def provider(self) -> Provider:
        return Provider.WEB_PUSH

    @property
    def port(self) -> int:
        return HTTPS_PORT if self.written_port is None else self.written_port

    @property
    def origin(self) -> str:
        """Scheme, host and port, without the port that goes without saying (RFC 6454, 6.2)."""
        return f"https://{self.host.lower()}" + ("" if self.port == HTTPS_PORT else f":{self.port}")

    @property
    def url(self) -> str:
        """Where pushes are posted to. Not to be shown."""
        return self.origin + self.path

    def encode(self) -> bytes:
        port = b"" if self.written_port is None else str(self.written_port).encode()
        texts = (self.host.encode(), port, self.path.encode(), self.auth, self.key)
        return self.provider.value + b"".join(map(string, texts))


Device: TypeAlias = ApnsDevice | WebPushDevice


def read_device(reader: FieldReader) -> Device:
    try:
        provider = Provider(reader.take(2))
    except ValueError:
        raise Malformed("no provider of pushes") from None
    if provider is Provider.WEB_PUSH:
        return WebPushDevice.read(reader)
    return ApnsDevice(provider, reader.string())


def _text(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("an endpoint that is no text") from None
