"""Settings of a server's providers. The configuration file is read elsewhere."""

from __future__ import annotations

from pathlib import Path

from headgate.core.model.value import value


@value
class WebPushSettings:
    """Web Push, which is UnifiedPush too."""

    contact: str
    """A mailto or https address of whoever runs the server; push services are shown it."""
    folder: Path
    """Of the server. The key by which push services know it is made here, unless one is given."""
    key_file: Path | None = None
    """That key, in PEM, if it is not the one of the folder."""
    allowed_private_hosts: frozenset[str] = frozenset()
    """Hosts of endpoints that may have addresses which are not public: push services of one's
    own network, by name."""
    ca_file: Path | None = None
    """Certificates in PEM that are trusted beside those of the system."""


@value
class ApnsSettings:
    """Apple's push service, with the key of an account there and the app that it belongs to."""

    key_file: Path
    """As Apple hands it out: PEM."""
    key_id: str
    team: str
    topic: str
    sandbox: bool = False
    """Take devices of Apple's sandbox, too."""
    test_url: str | None = None
    """Where pushes for test devices go. None are taken without it."""
    ca_file: Path | None = None
    """Certificates in PEM that are trusted beside those of the system."""


@value
class PushSettings:
    """Settings of pushing: which providers a server has."""

    web_push: WebPushSettings | None = None
    apns: ApnsSettings | None = None
    null: bool = True
    """Take devices that are never woken: for whoever tries a server."""
