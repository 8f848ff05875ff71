"""The numbers of a shell, in one value."""

from __future__ import annotations

from dataclasses import field

from headgate.agent.engine.settings import MESSAGING, EngineSettings
from headgate.client.smp.timing import BACKGROUND, Timing
from headgate.core.model.value import value
from headgate.wire.smp.handshake import VERSIONS, Versions


@value
class ShellSettings:
    """Settings of the shell: the engine's, the timeouts of links, and the pauses before the records
    are tried again."""

    engine: EngineSettings = MESSAGING
    timing: Timing = BACKGROUND
    versions: Versions = field(default=VERSIONS)
    connecting_max: int = 20
    """Attempts to connect with one router at a time: with a session for each connection there may
    be thousands to make, and a slow router must not delay the others."""
    retry_seconds: float = 2.0
    """Seconds after which a failed step of the records is tried again."""
