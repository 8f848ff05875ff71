"""Facts to Prometheus.

Facts are counted with plain integers, in the router's own thread, and become metric families
only when somebody scrapes: an update costs a dictionary lookup and no lock, and a scrape reads
numbers that the core keeps anyway and never touches the store. No label has an unbounded
value: queues, sessions and messages are in the API.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from operator import attrgetter
from typing import TypeAlias

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
from headgate.core.model.drift import Drift
from headgate.core.model.fact_kind import FACT_KINDS, FactCounter
from headgate.core.model.value import EMPTY
from headgate.server.admin.process_metrics import ProcessMetrics
from headgate.server.log import NO_DRIFT
from headgate.server.wires.names import NAMES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.4, 0.5, 0.7),
    *(1, 1.5, 2.5, 5, 10, 30, 60, 300),
)
"""The upper bounds of the buckets of a confirm's time; close where people begin to wait."""

LABEL_VALUES = 32
"""Different values that one label may take; whatever comes later is "other"."""


Described: TypeAlias = FactCounter
"""A metric: its name without `_total`, what it says, and its labels."""

BUILD = Described("build_info", "Always 1; what is running.", ("version", "python"))

COUNTERS = tuple({c: None for kind in f.KINDS for c in FACT_KINDS[kind].counters})
"""All that facts are counted in, once each."""
LABELLED = tuple(c for c in COUNTERS if c.labels)
"""By what is in the facts."""
SUMMED = tuple(c for c in COUNTERS if (c.adds and not c.labels) or c is f.REDELIVERIES)
"""Not one for each fact."""
COUNTED: Mapping[type[Fact], Described] = {
    kind: counter
    for kind in f.KINDS
    for counter in FACT_KINDS[kind].counters
    if counter not in (*LABELLED, *SUMMED, f.CONFIRM_SECONDS)
}
"""Counters that are the number of facts of a kind."""

WIRES = tuple((name,) for name in NAMES)
KNOWN_LABELS: Mapping[Described, Sequence[tuple[str, ...]]] = {
    **dict.fromkeys(FACT_KINDS[f.SessionOpened].counters, WIRES),
    **dict.fromkeys(FACT_KINDS[f.AuthenticationFailed].counters, WIRES),
    f.DISPLACEMENTS: (("queue",), ("notifier",), ("service",)),
    f.SERVICE_DRIFT: tuple((each.value,) for each in Drift if each is not Drift.NONE),
}
"""Counters of which it is known by what they can be labelled. They are there from the start, since
Prometheus does not see the step of a counter from nothing."""

GAUGES: Mapping[str, Described] = {
    "sessions": Described("sessions", "Sessions that are open."),
    "queues_subscribed": Described("queues_subscribed", "Queues with a subscriber."),
    "services_subscribed": Described("services_subscribed", "Services with a subscriber."),
    "service_queues_subscribed": Described(
        "service_queues_subscribed", "Queues and notifiers that services are subscribed to."
    ),
    "notifiers_subscribed": Described(
        "notifiers_subscribed", "Notifiers of queues that a session is by itself."
    ),
    "notices_waiting": Described("notices_waiting", "Notices that wait for their notifier."),
    "channels": Described("channels", "Channels with a subscriber."),
    "patterns": Described("patterns", "Distinct patterns with a subscriber."),
    "sessions_slow": Described("sessions_slow", "Sessions over the soft limit of a mailbox."),
    "publishers_waiting": Described(
        "publishers_waiting", "Sessions that wait for one that hears them and does not read."
    ),
    "backlog_messages": Described("backlog_messages", "Messages not yet confirmed."),
    "backlog_bytes": Described("backlog_bytes", "Bytes of the messages not yet confirmed."),
    "inbox_commands": Described("inbox_commands", "Commands that wait for their turn."),
    "deliveries_unconfirmed": Described(
        "deliveries_unconfirmed", "Deliveries that wait for their confirm."
    ),
    "oldest_unconfirmed_seconds": Described(
        "oldest_unconfirmed_seconds", "Age of the oldest delivery that was not confirmed."
    ),
    "sinks": Described("sinks", "Sinks whose last batch is remembered."),
    "outbox_bytes": Described("outbox_bytes", "Bytes of facts that are not sealed yet, about."),
    "journal_number": Described("journal_number", "The largest number of a sealed fact."),
    "journal_lag": Described("journal_lag", "Numbers of facts committed and not sealed."),
    "owner": Described("owner", "1 if this router serves, 0 while it waits for another."),
    "owner_term": Described(
        "owner_term", "How often the store has changed hands; 0 without store.standby."
    ),
    "owner_silence_seconds": Described(
        "owner_silence_seconds", "For how long the store may not have heard this router."
    ),
    "clock_difference_seconds": Described(
        "clock_difference_seconds", "How far the machine's clock is ahead of the router's."
    ),
    "mailbox_bytes": Described("mailbox_bytes", "Bytes in the mailboxes of all sessions."),
    "loop_lag_seconds": Described(
        "loop_lag_seconds", "How late the event loop was to take the last sample of the desk."
    ),
    "desk_viewers": Described("desk_viewers", "Live streams of the desk that are open."),
    "desk_sample_seconds": Described(
        "desk_sample_seconds", "How long it took to make the last sample of the desk."
    ),
}
"""Numbers that the core keeps and that go up and down."""

DOMAIN_GAUGES: Mapping[str, Described] = {
    "messages": Described(
        "domain_backlog_messages", "Messages of a domain not yet confirmed.", ("domain",)
    ),
    "bytes": Described(
        "domain_backlog_bytes", "Bytes of the messages of a domain not yet confirmed.", ("domain",)
    ),
    "unconfirmed": Described(
        "domain_deliveries_unconfirmed",
        "Deliveries of a domain's shared queues that wait for their confirm.",
        ("domain",),
    ),
    "queues": Described("domain_queues", "Shared queues of a domain.", ("domain",)),
    "quota": Described(
        "domain_quota_ratio", "The part of its quota that a domain has used, from 0.", ("domain",)
    ),
}
"""Numbers of the domains with shared queues that were used. So many domains have a label as one
label may have values; the rest together are "other"."""

WORKER_GAUGES: Mapping[str, Described] = {
    "clients": Described("worker_sessions", "Sessions whose sockets a worker has.", ("worker",)),
    "sessions_slow": Described(
        "worker_sessions_slow", "Of these, those over the soft limit of a mailbox.", ("worker",)
    ),
    "publishers_waiting": Described(
        "worker_publishers_waiting",
        "Sessions of a worker that wait for one that does not read.",
        ("worker",),
    ),
    "mailbox_bytes": Described(
        "worker_mailbox_bytes", "Bytes in the mailboxes of a worker.", ("worker",)
    ),
    "resident_bytes": Described("worker_resident_bytes", "Memory of a worker.", ("worker",)),
    "cpu_seconds": Described(
        "worker_cpu_seconds", "CPU time that a worker took since its start.", ("worker",)
    ),
}
"""Numbers of each worker of a router that has several."""

TOTALS: Mapping[str, Described] = {
    "turns": Described("turns", "Turns taken."),
    "turn_commands": Described("turn_commands", "Commands of all turns."),
    "turn_seconds": Described("turn_seconds", "Time that all turns took."),
    "channel_messages": Described("channel_messages", "Messages published to channels."),
    "channel_deliveries": Described("channel_deliveries", "Receivers of all of these."),
    "store_statements": Described("store_statements", "Statements that the store was asked."),
}
"""Numbers that the core keeps and that only go up."""


class Metrics(Collector):
    """The metrics of a router: it counts facts; `gauges` gives the numbers that the core keeps.

    Owned by the service; the router passes facts to `observe`, and a scrape reads.
    """

    def __init__(self, gauges: Callable[[], Mapping[str, float]] = dict) -> None:
        self.gauges = gauges
        self._kept: Mapping[str, float] | None = None
        self._domains: Iterable[tuple[str, Mapping[str, float]]] = ()
        self._workers: Mapping[int, Mapping[str, float]] = {}
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        self.registry.register(ProcessMetrics())
        self.facts: Counter[type[Fact]] = Counter()
        self.labelled: dict[Described, dict[tuple[str, ...], int]] = {
            d: dict.fromkeys(KNOWN_LABELS.get(d, ()), 0) for d in LABELLED
        }
        self.sums = dict.fromkeys(SUMMED, 0)
        self.buckets = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0
        (closed,) = FACT_KINDS[f.SessionClosed].counters
        # The whole cost of a fact that is more than a count: one lookup and one call.
        self.handlers: dict[type[Fact], Callable[..., None]] = {
            kind: self._handler(counters)
            for kind in f.KINDS
            if (counters := [c for c in FACT_KINDS[kind].counters if c.labels or c.adds])
        } | {
            f.Delivered: self._delivered,
            f.Confirmed: self._confirmed,
            # What stands behind a colon is about one case.
            f.SessionClosed: lambda fact: self._add(
                closed, fact.wire, fact.reason.partition(":")[0]
            ),
            f.Displaced: lambda fact: self._add(f.DISPLACEMENTS, "queue"),
            f.WatcherDisplaced: lambda fact: self._add(f.DISPLACEMENTS, "notifier"),
            f.ServiceDisplaced: lambda fact: self._add(f.DISPLACEMENTS, "service"),
            f.ServiceSubscribed: self._service_subscribed,
        }

    def _handler(self, counters: Sequence[FactCounter]) -> Callable[..., None]:
        """Counts a fact in each of them: once, or as often as one of its fields says; by the values
        of others, if they are labels."""
        calls = [self._counting(counter) for counter in counters]
        if len(calls) == 1:
            return calls[0]

        def count_in_each(fact: Fact) -> None:
            for call in calls:
                call(fact)

        return count_in_each

    def _counting(self, counter: FactCounter) -> Callable[..., None]:
        values = [attrgetter(label) for label in counter.labels]
        if not counter.adds:
            return lambda fact: self._add(counter, *(value(fact) for value in values))
        amount = attrgetter(counter.adds)
        if values:
            return lambda fact: self._add(
                counter, *(value(fact) for value in values), amount=amount(fact)
            )
        sums = self.sums

        def add(fact: Fact) -> None:
            sums[counter] += amount(fact)

        return add

    def observe(self, facts: Sequence[Fact]) -> None:
        """Count the facts of a turn."""
        self.facts.update(map(type, facts))
        handlers = self.handlers
        for fact in facts:
            handler = handlers.get(type(fact))
            if handler is not None:
                handler(fact)

    def exposition(
        self,
        kept: Mapping[str, float] | None = None,
        domains: Iterable[tuple[str, Mapping[str, float]]] = (),
        workers: Mapping[int, Mapping[str, float]] = EMPTY,
    ) -> bytes:
        """The text that Prometheus reads, with these gauges or those of now, and those of
        domains and of workers."""
        self._kept, self._domains, self._workers = kept, domains, workers
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily(full_name(BUILD), BUILD.help, labels=BUILD.labels)
        info.add_metric([version("headgate"), platform.python_version()], 1)
        yield info
        kept = self.gauges() if self._kept is None else self._kept
        for name, described in GAUGES.items():
            yield GaugeMetricFamily(full_name(described), described.help, kept.get(name, 0))
        yield from self._of_domains()
        yield from self._of_workers()
        for name, described in TOTALS.items():
            yield CounterMetricFamily(full_name(described), described.help, kept.get(name, 0))
        for kind, described in COUNTED.items():
            yield CounterMetricFamily(full_name(described), described.help, self.facts[kind])
        for described, count in self.sums.items():
            yield CounterMetricFamily(full_name(described), described.help, count)
        for described, counts in self.labelled.items():
            family = CounterMetricFamily(
                full_name(described), described.help, labels=described.labels
            )
            for labels, count in counts.items():
                family.add_metric(labels, count)
            yield family
        yield self._histogram()

    def _of_domains(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(full_name(described), described.help, labels=described.labels)
            for name, described in DOMAIN_GAUGES.items()
        }
        rest: dict[str, float] = {}
        for number, (domain, values) in enumerate(self._domains):
            for name, family in families.items():
                if number < LABEL_VALUES:
                    family.add_metric([domain], values[name])
                elif name == "quota":
                    rest[name] = max(rest.get(name, 0.0), values[name])
                else:
                    rest[name] = rest.get(name, 0.0) + values[name]
        for name, value in rest.items():
            families[name].add_metric(["other"], value)
        yield from families.values()

    def _of_workers(self) -> Iterator[Metric]:
        for name, described in WORKER_GAUGES.items():
            family = GaugeMetricFamily(
                full_name(described), described.help, labels=described.labels
            )
            for worker, values in self._workers.items():
                family.add_metric([str(worker)], values[name])
            yield family

    def _histogram(self) -> Metric:
        family = HistogramMetricFamily(full_name(f.CONFIRM_SECONDS), f.CONFIRM_SECONDS.help)
        below, cumulative = 0, []
        for bound, count in zip([*map(str, SECONDS), "+Inf"], self.buckets, strict=True):
            below += count
            cumulative.append((bound, float(below)))
        family.add_metric([], cumulative, self.seconds)
        return family

    def _delivered(self, fact: f.Delivered) -> None:
        if fact.attempts > 0:
            self.sums[f.REDELIVERIES] += 1

    def _confirmed(self, fact: f.Confirmed) -> None:
        self.buckets[bisect_left(SECONDS, fact.seconds)] += 1
        self.seconds += fact.seconds

    def _service_subscribed(self, fact: f.ServiceSubscribed) -> None:
        if fact.drift not in NO_DRIFT:
            self._add(f.SERVICE_DRIFT, fact.drift)

    def _add(self, described: Described, *labels: str, amount: int = 1) -> None:
        counts = self.labelled[described]
        if labels not in counts and len(counts) >= LABEL_VALUES:
            labels = ("other",) * len(labels)
        counts[labels] = counts.get(labels, 0) + amount


def full_name(described: Described) -> str:
    return f"headgate_{described.name}"
