"""The address of a router: host, port, and TLS."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from headgate.core.model.value import value
from headgate.errors import ConfigError

PORT = 30114
"""BlazingMQ's port."""

EXAMPLE = "tcp://127.0.0.1:30114"


@value
class Address:
    """The address of a router, with or without TLS."""

    host: str
    port: int
    context: ssl.SSLContext | None = None
    """TLS, if there is one."""
    server_name: str | None = None
    """The name that the router's certificate must have, if it is checked."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(
    text: str,
    certificate: Path | None = None,
    client_certificate: Path | None = None,
    client_key: Path | None = None,
) -> Address:
    """Parse ``tcp://HOST[:PORT]``, or ``tcps://`` for TLS: with exactly the given certificate,
    whatever its name, or else by the machine's authorities. The client's own certificate
    authenticates it; its key may be in the same file."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme not in ("tcp", "tcps") or parts.path.strip("/"):
        raise ConfigError(f"{text!r} is no address of a router; write it as {EXAMPLE}")
    if parts.scheme == "tcp":
        if certificate is not None or client_certificate is not None:
            raise ConfigError(f"a certificate is for tcps://, not for {text}")
        return Address(host, port or PORT)
    try:
        context = ssl.create_default_context(
            cafile=None if certificate is None else str(certificate)
        )
    except OSError as error:
        raise ConfigError(f"the certificate {certificate}: {error.strerror or error}") from error
    context.check_hostname = certificate is None
    if client_certificate is not None:
        try:
            context.load_cert_chain(client_certificate, client_key)
        except OSError as error:
            raise ConfigError(
                f"the certificate {client_certificate} and its key cannot be used:"
                f" {error.strerror or error}"
            ) from error
    return Address(host, port or PORT, context, host)
