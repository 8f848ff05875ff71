"""Events of the last ten minutes that somebody may want to know of: limits that were reached,
handshakes that failed, services that disagree, messages that were given up."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.ids import ServiceId
from headgate.server.desk.asking import shown, shown_bytes
from headgate.server.desk.attention import Happened
from headgate.server.log import NO_DRIFT

LATELY_SECONDS = 600.0
KEPT_MAX = 50
HANDSHAKES_MIN = 10
"""Fewer that fail are scanners, or somebody's first try."""


KINDS = (f.LimitReached, f.HandshakeFailed, f.ServiceSubscribed, f.Poisoned)


class Lately:
    """Counts by kind and what it is about. An event that has not happened for ten minutes is
    forgotten."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[int, float, float]] = {}
        """How often, when first, and when last."""

    def take(self, fact: Fact) -> None:
        """Count a fact of one of these kinds."""
        match fact:
            case f.LimitReached():
                self._count("limit", fact.name, fact.at)
            case f.HandshakeFailed():
                self._count("handshakes", shown(f"{fact.wire}: {fact.reason}"), fact.at)
            case f.ServiceSubscribed() if fact.drift not in NO_DRIFT:
                self._count("drift", _service(fact.service), fact.at)
            case f.Poisoned():
                self._count("poisoned", shown_bytes(fact.queue, 400), fact.at)

    def _count(self, kind: str, about: str, at: float) -> None:
        count, first, _ = self._found.pop((kind, about), (0, at, at))
        self._found[kind, about] = (count + 1, first, at)
        if len(self._found) > KEPT_MAX:
            del self._found[next(iter(self._found))]

    def happened(self, now: float) -> Mapping[str, Happened]:
        """The events to report."""
        self._found = {
            key: found for key, found in self._found.items() if now - found[2] <= LATELY_SECONDS
        }
        return {
            f"{kind} {about}": Happened(kind, about, count, first)
            for (kind, about), (count, first, _) in self._found.items()
            if kind != "handshakes" or count >= HANDSHAKES_MIN
        }


def _service(service: ServiceId) -> str:
    return service[:8].hex()
