"""Facts to Prometheus.

Facts are counted with plain integers, in the router's own thread, and become metric families
only when somebody scrapes: an update costs a dictionary lookup and no lock, and a scrape reads
numbers that the core keeps anyway and never touches the store. No label has an unbounded
value: queues, sessions and messages are in ``/status.json``.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

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
from headgate.server.log import NO_DRIFT

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The upper bounds of the buckets of a confirm's time."""

LABEL_VALUES = 32
"""Different values that one label may take; whatever comes later is "other"."""


@dataclass(frozen=True, slots=True, eq=False)  # hashed by identity, which costs nothing
class Described:
    """A metric: its name without `_total`, what it says, and its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


COUNTED: Mapping[type[Fact], Described] = {
    f.RouterStarted: Described("starts", "Starts of the router in this process."),
    f.QueueCreated: Described("queues_created", "Queues that were made."),
    f.QueueDeleted: Described("queues_deleted", "Queues that were removed."),
    f.QueueDamaged: Described("queues_damaged", "Times a queue could not be read."),
    f.QueueAmended: Described(
        "queues_amended", "Changes of who may do what with a queue: keys, links, notifiers."
    ),
    f.Subscribed: Described("subscribed", "Sessions that became a subscriber of a queue."),
    f.Interested: Described(
        "interests_set", "Subscriptions of consumers, by expression, that came or were kept."
    ),
    f.Unsubscribed: Described("unsubscribed", "Sessions that ceased to be one of a queue."),
    f.Accepted: Described("messages_received", "Messages of senders that the router has."),
    f.Repeated: Described(
        "messages_repeated", "Messages that came again with an id still remembered."
    ),
    f.AutoConfirmed: Described(
        "messages_auto_confirmed",
        "Messages confirmed for an app because none of its expressions is true.",
    ),
    f.PutAside: Described(
        "messages_put_aside", "Messages that wait because no subscription could take them."
    ),
    f.AppUnknown: Described(
        "apps_unknown", "Sessions that read an app which the domain does not have."
    ),
    f.Missed: Described(
        "broadcasts_missed", "Broadcasts that a session had no room for in its mailbox."
    ),
    f.Returned: Described(
        "deliveries_returned", "Deliveries not confirmed before their session closed or was lost."
    ),
    f.Poisoned: Described(
        "messages_poisoned", "Messages dropped for an app because sessions were lost with them."
    ),
    f.Expired: Described("messages_expired", "Messages removed because their time was over."),
    f.Delivered: Described("deliveries", "Messages handed to a session."),
    f.Confirmed: Described("confirms", "Deliveries that a session is done with."),
    f.Watched: Described("watched", "Sessions that became the notifier of a queue."),
    f.ServiceIdentified: Described(
        "services_identified", "Certificates of services that were seen for the first time."
    ),
    f.ServiceSubscribed: Described(
        "service_subscriptions", "Sessions that became the subscriber of a service."
    ),
    f.Associated: Described("queues_associated", "Queues that became a service's, or nobody's."),
    f.SweepEnded: Described("service_sweeps", "Services whose queues have all been looked at."),
    f.QueueStuck: Described("queues_stuck", "Apps of queues that stopped making progress."),
    f.QueueMoved: Described("queues_moved", "Stuck apps of queues that made progress again."),
    f.ChannelCounted: Described(
        "channel_counts", "Rows that count what was published on a channel in a second."
    ),
    f.ChannelSubscribed: Described(
        "channel_subscriptions", "Subscriptions to channels and patterns."
    ),
    f.ChannelUnsubscribed: Described(
        "channel_unsubscriptions", "Subscriptions to channels and patterns that ended by request."
    ),
    f.SessionSlowed: Described(
        "sessions_slowed", "Times a session's mailbox went over its soft limit."
    ),
    f.SessionEased: Described("sessions_eased", "Slow sessions that caught up."),
    f.PublisherWaited: Described(
        "publisher_waits", "Times a session had to wait for one that hears it and does not read."
    ),
    f.SessionEvicted: Described("sessions_evicted", "Slow sessions that were closed."),
    f.SlotsMoved: Described("slot_moves", "Times slots of the cluster went to another node."),
    f.AccessDenied: Described("access_denials", "Commands that access rules did not allow."),
    f.FactsCounted: Described("facts_counted", "Floods of facts that were counted, not told."),
    f.SinkCommitted: Described("sink_batches", "Batches of sinks that were committed."),
    f.SinkForgotten: Described("sinks_forgotten", "Sinks whose last batch was forgotten."),
    f.SegmentsExpired: Described("journal_expirations", "Times old segments were removed."),
    f.TurnFailed: Described("turn_failures", "Turns that the store refused."),
}
"""Counters that are the number of facts of a kind."""

RECEIVED_BYTES = Described("messages_received_bytes", "Bytes of the messages received.")
REDELIVERIES = Described("redeliveries", "Deliveries of a message that a lost session had before.")
OPENED = Described("sessions_opened", "Sessions that began.", ("wire",))
CLOSED = Described("sessions_closed", "Sessions that ended, and why.", ("wire", "reason"))
HANDSHAKES = Described(
    "handshakes_failed", "Clients with whom TLS was not agreed on, and why.", ("wire", "reason")
)
DISPLACED = Described("displacements", "Queues and services taken by a new session.", ("kind",))
REFUSED = Described("requests_refused", "Requests that were refused, and why.", ("reason",))
DRIFT = Described(
    "service_drift", "Services whose tally differed from the router's, and how.", ("kind",)
)
LIMITS = Described("limits_reached", "Bounds of the router that were reached.", ("name",))
CAPACITY = Described(
    "capacity_changes", "Queues and domains that crossed a mark.", ("scope", "state")
)
CONFIRM_SECONDS = Described("confirm_seconds", "Time from a delivery to its confirm.")
BUILD = Described("build_info", "Always 1; what is running.", ("version", "python"))

DISCARDED = Described(
    "messages_discarded", "Messages of channels that slow or closed sessions did not get."
)

NOTICES = Described("notices_sent", "Notices that notifiers were told.")
NOTICES_DROPPED = Described(
    "notices_dropped", "Notices that nobody took and that were given up: too old, or too many."
)

SUMMED = (RECEIVED_BYTES, REDELIVERIES, DISCARDED, NOTICES, NOTICES_DROPPED)
LABELLED = (
    OPENED,
    CLOSED,
    HANDSHAKES,
    DISPLACED,
    REFUSED,
    DRIFT,
    LIMITS,
    CAPACITY,
)
"""Counters by what is in the facts."""

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
    "mailbox_bytes": Described("mailbox_bytes", "Bytes in the mailboxes of all sessions."),
}
"""Numbers that the core keeps and that go up and down."""

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
    """Counts facts; `gauges` gives the numbers that the core keeps."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]] = dict) -> None:
        self.gauges = gauges
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        self.facts: Counter[type[Fact]] = Counter()
        self.labelled: dict[Described, dict[tuple[str, ...], int]] = {d: {} for d in LABELLED}
        self.received_bytes = 0
        self.redeliveries = 0
        self.discarded = 0
        self.notices = 0
        self.notices_dropped = 0
        self.buckets = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0
        # The whole cost of a fact that is more than a count: one lookup and one call.
        self.handlers: dict[type[Fact], Callable[..., None]] = {
            f.Accepted: self._accepted,
            f.Delivered: self._delivered,
            f.Confirmed: self._confirmed,
            f.SessionOpened: lambda fact: self._add(OPENED, fact.wire),
            # What stands behind a colon is about one case.
            f.SessionClosed: lambda fact: self._add(
                CLOSED, fact.wire, fact.reason.partition(":")[0]
            ),
            f.HandshakeFailed: lambda fact: self._add(HANDSHAKES, fact.wire, fact.reason),
            f.MessagesDiscarded: self._discarded,
            f.NoticesSent: self._notices_sent,
            f.NoticesDropped: self._notices_dropped,
            f.Displaced: lambda fact: self._add(DISPLACED, "queue"),
            f.WatcherDisplaced: lambda fact: self._add(DISPLACED, "notifier"),
            f.ServiceDisplaced: lambda fact: self._add(DISPLACED, "service"),
            f.Refused: lambda fact: self._add(REFUSED, fact.reason),
            f.ServiceSubscribed: self._service_subscribed,
            f.LimitReached: lambda fact: self._add(LIMITS, fact.name),
            f.CapacityChanged: lambda fact: self._add(CAPACITY, fact.scope, fact.state),
        }

    def observe(self, facts: Sequence[Fact]) -> None:
        """Count the facts of a turn."""
        self.facts.update(map(type, facts))
        handlers = self.handlers
        for fact in facts:
            handler = handlers.get(type(fact))
            if handler is not None:
                handler(fact)

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily(_full(BUILD), BUILD.help, labels=BUILD.labels)
        info.add_metric([version("headgate"), platform.python_version()], 1)
        yield info
        kept = self.gauges()
        for name, described in GAUGES.items():
            yield GaugeMetricFamily(_full(described), described.help, kept.get(name, 0))
        for name, described in TOTALS.items():
            yield CounterMetricFamily(_full(described), described.help, kept.get(name, 0))
        for kind, described in COUNTED.items():
            yield CounterMetricFamily(_full(described), described.help, self.facts[kind])
        sums = (
            self.received_bytes,
            self.redeliveries,
            self.discarded,
            self.notices,
            self.notices_dropped,
        )
        for described, count in zip(SUMMED, sums, strict=True):
            yield CounterMetricFamily(_full(described), described.help, count)
        for described, counts in self.labelled.items():
            family = CounterMetricFamily(_full(described), described.help, labels=described.labels)
            for labels, count in counts.items():
                family.add_metric(labels, count)
            yield family
        yield self._histogram()

    def _histogram(self) -> Metric:
        family = HistogramMetricFamily(_full(CONFIRM_SECONDS), CONFIRM_SECONDS.help)
        below, cumulative = 0, []
        for bound, count in zip([*map(str, SECONDS), "+Inf"], self.buckets, strict=True):
            below += count
            cumulative.append((bound, float(below)))
        family.add_metric([], cumulative, self.seconds)
        return family

    def _accepted(self, fact: f.Accepted) -> None:
        self.received_bytes += fact.size

    def _discarded(self, fact: f.MessagesDiscarded) -> None:
        self.discarded += fact.count

    def _notices_sent(self, fact: f.NoticesSent) -> None:
        self.notices += fact.count

    def _notices_dropped(self, fact: f.NoticesDropped) -> None:
        self.notices_dropped += fact.count

    def _delivered(self, fact: f.Delivered) -> None:
        if fact.attempts > 0:
            self.redeliveries += 1

    def _confirmed(self, fact: f.Confirmed) -> None:
        self.buckets[bisect_left(SECONDS, fact.seconds)] += 1
        self.seconds += fact.seconds

    def _service_subscribed(self, fact: f.ServiceSubscribed) -> None:
        if fact.drift not in NO_DRIFT:
            self._add(DRIFT, fact.drift)

    def _add(self, described: Described, *labels: str) -> None:
        counts = self.labelled[described]
        if labels not in counts and len(counts) >= LABEL_VALUES:
            labels = ("other",) * len(labels)
        counts[labels] = counts.get(labels, 0) + 1


def _full(described: Described) -> str:
    return f"headgate_{described.name}"
