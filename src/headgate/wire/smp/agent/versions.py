"""Versions of the three layers between agents, as bytes and as text.

Each layer has its own: the envelope of a queue ("client"), the messages of agents, and the
encryption between two of them. The maker of an address or a link writes its range of versions; the
user takes the highest that both support.
"""

from __future__ import annotations

import re
from typing import Final

from headgate.errors import Malformed
from headgate.wire.smp.codec.encoding import FieldReader, word16
from headgate.wire.smp.handshake import Versions

AGENT_VERSIONS: Final = Versions(6, 7)
CLIENT_VERSIONS: Final = Versions(3, 4)
RATCHET_VERSIONS: Final = Versions(2, 3)
"""The versions that this agent publishes."""

TEXT: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def read_versions(reader: FieldReader) -> Versions:
    return _checked(reader.word16(), reader.word16())


def encode_versions(versions: Versions) -> bytes:
    return word16(versions.lowest) + word16(versions.highest)


def parse_versions(text: str) -> Versions:
    """Parse ``2-4``, or ``4`` for a single one."""
    match = TEXT.fullmatch(text)
    if match is None:
        raise Malformed("no range of versions")
    return _checked(int(match[1]), int(match[2] or match[1]))


def format_versions(versions: Versions) -> str:
    lowest, highest = versions
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def _checked(lowest: int, highest: int) -> Versions:
    if not 0 < lowest <= highest < 65536:
        raise Malformed("no range of versions")
    return Versions(lowest, highest)
