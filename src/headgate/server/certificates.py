"""The certificates that a router shows, and until when each can be used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from headgate.server.config.sections import Config

SOON_SECONDS = 21 * 86_400.0
"""Of one that ends sooner somebody is told."""
URGENT_SECONDS = 3 * 86_400.0
"""And that it is urgent."""


@dataclass(frozen=True, slots=True)
class CertificateEnd:
    """A certificate that ends soon, or has ended."""

    what: str
    """Which listener shows it, or which part of the identity it is."""
    path: str
    left: float
    """Seconds; negative if it is over."""


def certificate_files(config: Config) -> Iterator[tuple[str, Path]]:
    """The certificates of a configuration: those that listeners show, and the identity."""
    for name, listen in config.listen.each().items():
        if listen.tls is not None:
            yield f"listen.{name}", config.directory / listen.tls.certificate
    if config.listen.smp is not None:
        folder = config.directory / config.smp.identity
        for name in ("ca.crt", "server.crt"):
            if (folder / name).exists():
                yield f"identity {name}", folder / name


def ending_soon(config: Config, now: float) -> list[CertificateEnd]:
    """Certificates that end within three weeks, by wall time. One that cannot be read is no matter
    of time: `headgate check` reports it. Reads files."""
    found = []
    for what, path in certificate_files(config):
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError):
            continue
        left = certificate.not_valid_after_utc.timestamp() - now
        if left < SOON_SECONDS:
            found.append(CertificateEnd(what, str(path), left))
    return found
