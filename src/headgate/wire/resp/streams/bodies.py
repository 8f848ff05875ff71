"""Properties read from message bodies, and counts of bodies that could not be read."""

from __future__ import annotations

from headgate.core.facts import BodiesUnread
from headgate.core.model.body_paths import read_body
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.core.model.message import PropertyValue
from headgate.errors import LimitReached

JSON_BYTES_A_STEP = 48
"""Bytes of a body read in one step, for the slowest kind: empty lists."""


class BodyReader:
    """Reads the bodies of Redis clients as their domains say. Owned by the hub, which takes its
    counts."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts: dict[str, list[int]] = {}
        """Counts by domain: unreadable bodies, and values of the wrong type."""

    def check_size(self, size: int) -> None:
        """Raise if names and values of so many bytes exceed the limit of properties, before reading
        them: they may be megabytes. A number takes less room than its digits."""
        most = self._limits.properties_bytes
        if size > 2 * most:
            raise LimitReached("properties_bytes", most)

    def add_properties(
        self,
        domain: Domain,
        body: bytes,
        properties: dict[str, PropertyValue],
        types: bytearray,
    ) -> None:
        """Add the properties in a body to those of the fields, which win where both have a name."""
        found = read_body(body, domain.properties, domain.envelope, self._limits.json_bytes)
        room = self._limits.message_properties - len(properties)
        for (name, value), type in zip(found.values.items(), found.types, strict=True):
            if name not in properties and room > 0:
                properties[name] = value
                types.append(type)
                room -= 1
        self.note(domain.name, is_unread=found.is_unread, misfits=found.misfits)

    def note(self, domain: str, *, is_unread: bool, misfits: int) -> None:
        """Count a body that could not be read, or values of the wrong type."""
        if is_unread or misfits:
            counts = self._counts.setdefault(domain, [0, 0])
            counts[0] += is_unread
            counts[1] += misfits

    def counted(self, at: float) -> list[BodiesUnread]:
        """The counts since the last call."""
        counts, self._counts = self._counts, {}
        return [BodiesUnread(at, domain, *each) for domain, each in counts.items()]
