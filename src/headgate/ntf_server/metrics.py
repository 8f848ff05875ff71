"""Metrics of a notification server, for Prometheus.

It reads what the server counts as it goes, and the last census. No label has an unbounded value:
none names a token, a notifier or a router.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.fact_kind import FACT_KINDS
from headgate.ntf_server.push_times import SECONDS, PushTimes
from headgate.server.admin.metrics import BUILD, LABEL_VALUES, Described, full_name
from headgate.wire.ntf.devices import Provider
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus

if TYPE_CHECKING:
    from headgate.ntf_server.census import Census
    from headgate.ntf_server.server import NtfServer

TOKENS: Final = Described("ntf_tokens", "Tokens in each status.", ("status",))
SUBSCRIPTIONS: Final = Described(
    "ntf_subscriptions", "Subscriptions to notifiers in each status.", ("status",)
)
APPS: Final = Described("ntf_apps", "Apps that are connected.")
ROUTERS: Final = Described(
    "ntf_routers", "Routers with subscriptions, by what the session with them is doing.", ("state",)
)
SERVICES: Final = Described(
    "ntf_services", "Routers by what our service there is doing.", ("state",)
)
SERVICE_QUEUES: Final = Described(
    "ntf_service_queues", "Subscriptions that routers have confirmed for our services."
)
PUSHES_WAITING: Final = Described("ntf_pushes_waiting", "Pushes that wait or are under way.")
OUTBOX_BYTES: Final = Described(
    "ntf_outbox_bytes", "Bytes of facts that are not sealed yet, about."
)
JOURNAL_NUMBER: Final = Described(
    "ntf_journal_number", "The largest number of a sealed fact of the journal."
)
JOURNAL_LAG: Final = Described("ntf_journal_lag", "Numbers of facts stored and not sealed.")
GAUGES: Final = (
    TOKENS,
    SUBSCRIPTIONS,
    APPS,
    ROUTERS,
    SERVICES,
    SERVICE_QUEUES,
    PUSHES_WAITING,
    OUTBOX_BYTES,
    JOURNAL_NUMBER,
    JOURNAL_LAG,
)

NOTICES: Final = Described(
    "ntf_notices",
    "Notices of routers, by what became of them: pushed; no_token, nobody wants them any more;"
    " inactive, the device is not verified or dead.",
    ("outcome",),
)
NOTICES_DROPPED: Final = Described(
    "ntf_notices_dropped", "Notices of routers for which there was no room."
)
PUSHES: Final = Described(
    "ntf_pushes",
    "Pushes, by what they are for and what became of them.",
    ("provider", "kind", "outcome"),
)
DRIFTS: Final = Described(
    "ntf_service_drift", "Routers whose tally differed from ours, and how.", ("kind",)
)
STATEMENTS: Final = Described("ntf_store_statements", "Statements that the store was asked.")
COMMITS: Final = Described("ntf_store_commits", "Transactions of the store.")
FACTS_DROPPED: Final = Described(
    "ntf_facts_dropped", "Facts for the journal for which there was no room."
)
TOTALS: Final = (
    NOTICES,
    NOTICES_DROPPED,
    PUSHES,
    DRIFTS,
    STATEMENTS,
    COMMITS,
    FACTS_DROPPED,
)

(LIMITS,) = FACT_KINDS[f.LimitReached].counters
(HANDSHAKES,) = FACT_KINDS[f.HandshakeFailed].counters

PUSH_SECONDS: Final = Described(
    "ntf_push_seconds", "Time that a provider took for a push.", ("provider",)
)


class NtfMetrics(Collector):
    """The metrics of the server that `show` was called with; before that there is nothing but the
    build."""

    def __init__(self) -> None:
        self.times: dict[Provider, PushTimes] = {}
        """Of the providers that there are."""
        self._facts: dict[Described, Counter[tuple[str, ...]]] = {
            LIMITS: Counter(),
            HANDSHAKES: Counter(),
        }
        self._server: NtfServer | None = None
        self._census: Census | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def show(self, server: NtfServer, census: Census) -> None:
        self._server = server
        self._census = census

    def observe(self, facts: Sequence[Fact]) -> None:
        """Count what apps ran into before they were heard."""
        for fact in facts:
            match fact:
                case f.LimitReached(name=name):
                    self._count(LIMITS, name)
                case f.HandshakeFailed(wire=wire, reason=reason):
                    self._count(HANDSHAKES, wire, reason)

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        build = version("headgate"), platform.python_version()
        yield _gauge(BUILD, {build: 1})
        if self._server is None or self._census is None:
            return
        gauges, totals = self._gauges(self._server, self._census), self._totals(self._server)
        yield from (_gauge(each, gauges[each]()) for each in GAUGES)
        yield from (_counter(each, totals[each]()) for each in TOTALS)
        yield from (_counter(each, counts) for each, counts in self._facts.items())
        yield self._histogram()

    def _gauges(
        self, server: NtfServer, census: Census
    ) -> dict[Described, Callable[[], Mapping[tuple[str, ...], float]]]:
        slots, journal = server.notifiers.status(), server.journal
        return {
            TOKENS: lambda: {(s.value,): census.tokens.get(s, 0) for s in TokenStatus},
            SUBSCRIPTIONS: lambda: {
                (s.value,): census.subscriptions.get(s, 0) for s in SubscriptionStatus
            },
            APPS: lambda: {(): len(server.apps)},
            ROUTERS: lambda: Counter((slot.phase.value,) for slot in slots),
            SERVICES: lambda: Counter((slot.service.value,) for slot in slots),
            SERVICE_QUEUES: lambda: {(): sum(slot.tally.count for slot in slots)},
            PUSHES_WAITING: lambda: {(): len(server.pusher)},
            OUTBOX_BYTES: lambda: {(): server.records.box.bytes},
            JOURNAL_NUMBER: lambda: {(): 0 if journal is None else journal.sealer.last},
            JOURNAL_LAG: lambda: {(): 0 if journal is None else journal.sealer.lag},
        }

    def _totals(
        self, server: NtfServer
    ) -> dict[Described, Callable[[], Mapping[tuple[str, ...], float]]]:
        return {
            NOTICES: lambda: {(fate.value,): count for fate, count in server.intake.fates.items()},
            NOTICES_DROPPED: lambda: {(): server.intake.dropped},
            PUSHES: lambda: {
                (provider.name.lower(), kind.value, outcome): count
                for (provider, kind, outcome), count in server.pusher.outcomes.items()
            },
            DRIFTS: lambda: {(drift,): count for drift, count in server.notifiers.drifts.items()},
            STATEMENTS: lambda: {(): server.records.statements},
            COMMITS: lambda: {(): server.records.commits},
            FACTS_DROPPED: lambda: {(): server.records.box.dropped},
        }

    def _count(self, described: Described, *labels: str) -> None:
        counts = self._facts[described]
        if labels not in counts and len(counts) >= LABEL_VALUES:
            labels = ("other",) * len(labels)
        counts[labels] += 1

    def _histogram(self) -> Metric:
        family = HistogramMetricFamily(
            full_name(PUSH_SECONDS), PUSH_SECONDS.help, labels=PUSH_SECONDS.labels
        )
        for provider, times in self.times.items():
            below, cumulative = 0, []
            for bound, count in zip([*map(str, SECONDS), "+Inf"], times.buckets, strict=True):
                below += count
                cumulative.append((bound, float(below)))
            family.add_metric([provider.name.lower()], cumulative, times.seconds)
        return family


def _gauge(described: Described, counts: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(full_name(described), described.help, labels=described.labels)
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def _counter(described: Described, counts: Mapping[tuple[str, ...], float]) -> Metric:
    family = CounterMetricFamily(full_name(described), described.help, labels=described.labels)
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family
