"""The numbers of the server for apps, and which providers it has."""

from __future__ import annotations

from typing import Final

from headgate.core.model.value import value
from headgate.wire.ntf.devices import Provider

HOUR: Final = 3600.0


@value
class AppSettings:
    """Bounds of the server for apps."""

    providers: frozenset[Provider] = frozenset({Provider.NULL, Provider.WEB_PUSH})
    """Of which devices are taken."""
    connections: int = 10_000
    handshake_seconds: float = 10.0
    """From the connection to the app's hello."""
    idle_seconds: float = 12 * HOUR
    """After which a silent connection is closed."""
    registrations_per_minute: int = 20
    """TNEWs from one address: each is a push to a device that somebody names."""
