"""One sample a second, whoever looks: the numbers of the router, its history, and the tick that all
viewers get, made and encoded once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.server.admin.metrics import SECONDS, Metrics
from headgate.server.certificates import CertificateEnd
from headgate.server.desk.answers import Point, Sentence, Tick
from headgate.server.desk.attention import Attention, Moment
from headgate.server.desk.channel_rates import ChannelRates
from headgate.server.desk.elsewhere import NOBODY_ELSEWHERE, Elsewhere
from headgate.server.desk.expiry_lag import ExpiryLag
from headgate.server.desk.findings import findings
from headgate.server.desk.kept import FACTS_PER_SECOND, LEVELS, KeptFacts, RecentMessages
from headgate.server.desk.lately import KINDS as LATELY
from headgate.server.desk.lately import Lately
from headgate.server.desk.observing import Observers
from headgate.server.desk.rows import Rows
from headgate.server.desk.series import History
from headgate.server.desk.unknown_apps import KINDS as UNKNOWN_APPS
from headgate.server.desk.unknown_apps import UnknownApps
from headgate.server.desk.viewers import Viewers

if TYPE_CHECKING:
    from headgate.server.router import Router

log = logging.getLogger(__name__)

SAMPLE_SECONDS = 1.0
SHOWN = 8
CLOSED_SHOWN = 6

COUNTERS = {
    "published": "channel_messages",
    "fanned_out": "channel_deliveries",
    "turns": "turns",
    "statements": "store_statements",
}
"""Rates that are differences of what the router counts, and what that is called there."""

FACTS: dict[str, type[Fact]] = {
    "accepted": f.Accepted,
    "delivered": f.Delivered,
    "confirmed": f.Confirmed,
    "put_aside": f.PutAside,
    "returned": f.Returned,
    "opened": f.SessionOpened,
    "closed": f.SessionClosed,
    "refused": f.Refused,
}
"""Rates that are numbers of facts."""

GAUGES = (
    "sessions",
    "sessions_slow",
    "publishers_waiting",
    "backlog_messages",
    "backlog_bytes",
    "deliveries_unconfirmed",
    "oldest_unconfirmed_seconds",
    "mailbox_bytes",
    "journal_lag",
    "outbox_bytes",
    "inbox_commands",
    "channels",
    "patterns",
    "queues_subscribed",
    "services_subscribed",
    "notices_waiting",
)
"""Taken as they are."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """The sampler of a router that was started. The service runs it; viewers wait in `viewers`."""

    def __init__(
        self,
        router: Router,
        metrics: Metrics,
        *,
        version: str,
        stage: Callable[[], str],
        recent: int,
        elsewhere: Elsewhere = NOBODY_ELSEWHERE,
        directory: Path | None = None,
    ) -> None:
        self._router = router
        self._metrics = metrics
        self._version = version
        self._stage = stage
        self._directory = directory
        """Of the state, if there is any."""
        self._started = router.clock()
        self.rows = Rows(router, elsewhere)
        self.history = History()
        self.facts = KeptFacts()
        self.recent = RecentMessages(recent)
        self.channels = ChannelRates()
        self.viewers = Viewers()
        self.lately = Lately()
        self.unknown = UnknownApps()
        self.expiry = ExpiryLag(router.broker.shard.domains)
        self.certificates: Sequence[CertificateEnd] = ()
        """Certificates that end soon; set by the service, which reads files."""
        self._attention = Attention()
        self.sentences: list[Sentence] = []
        self.at = 0.0
        """When the last sample was taken."""
        self.busy = 0.0
        self._before: dict[str, float] | None = None
        self._buckets = list(metrics.buckets)
        self._fact = 0
        """The last that viewers were sent."""
        self.took = 0.0
        """How long the last sample took to make."""
        self.late = 0.0
        """How late the event loop was for it."""
        self.every_second: list[Callable[[], None]] = []
        """Functions that are called with every sample."""
        self.observers = Observers()
        self.observers.add(LEVELS, self.facts.take)
        self.observers.add([f.Accepted], self.recent.take)
        self.observers.add(LATELY, self.lately.take)
        self.observers.add(UNKNOWN_APPS, self.unknown.take)
        self.observers.add([f.Expired], self.expiry.take)
        router.watch(self.observers.observe)
        router.watch_channels(self.channels.observe)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take samples until the end of the block; then all streams are ended."""
        task = asyncio.create_task(self._run(), name="desk")
        try:
            yield
        finally:
            task.cancel()
            self.viewers.end()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        self._point(0.0)  # what the first sample compares with
        due = time.monotonic() + SAMPLE_SECONDS
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            late = max(0.0, time.monotonic() - due)
            due = max(due + SAMPLE_SECONDS, time.monotonic())
            try:
                self.sample(late)
            except Exception:
                log.exception("a sample was not taken")

    def sample(self, late: float = 0.0) -> None:
        """Take one sample. Without viewers only the history is fed, and what needs attention is
        looked for."""
        began = time.perf_counter()
        self.late = late
        self.facts.pass_second()
        self.recent.pass_second()
        self.expiry.pass_second()
        for callback in self.every_second:
            callback()
        point = self._point(late)
        now = self._router.clock()
        self.at = now
        if point is not None:
            self.busy = point.busy
            self.history.add(now, point)
            slow, apps = self.rows.in_trouble(SHOWN), self.rows.behind(SHOWN)
            moment = Moment(
                now,
                point,
                self._router.problems(),
                slow,
                apps,
                self._router.journal is not None,
                self.rows.full_domains(SHOWN),
                self.lately.happened(now),
                self.rows.undecided(),
                time.time() - now,
                self._disk_free(),
                is_draining=self._stage() == "draining",
                unknown=self.unknown.found(self._router.broker),
                certificates=self.certificates,
                expiry_late=self.expiry.seconds,
                expiry_queues=self._router.broker.shard.shared.expiry.overdue,
            )
            self.sentences = self._attention.sentences(findings(moment), now)
            if len(self.viewers):
                tick = Tick(
                    at=now,
                    point=point,
                    attention=self.sentences,
                    slow=slow,
                    apps=apps,
                    top=self.channels.top(SHOWN, self._router.broker.channels),
                    closed=self.rows.closed(CLOSED_SHOWN),
                    uptime=now - self._started,
                    version=self._version,
                    store=self._router.store.kind,
                    stage=self._stage(),
                    journal=self._router.journal is not None,
                    viewers=len(self.viewers),
                )
                self.viewers.send(event("tick", tick), self._new_facts())
        self.took = time.perf_counter() - began

    def _disk_free(self) -> float:
        """The part that is free of the disk with the state directory."""
        if self._directory is None:
            return 1.0
        try:
            found = os.statvfs(self._directory)
        except OSError:
            return 1.0
        return found.f_bavail / found.f_blocks if found.f_blocks else 1.0

    def _new_facts(self) -> bytes:
        """The facts since the last sample, if a viewer wants them."""
        if not self.viewers.want_facts:
            return b""
        rows = self.facts.newest(after=self._fact, most=FACTS_PER_SECOND)
        self._fact = self.facts.last
        return b"".join(event("fact", row) for row in reversed(rows))

    def _point(self, late: float) -> Point | None:
        """The numbers of now; none the first time, when there is nothing to compare with."""
        metrics, gauges = self._metrics, self._router.gauges()
        sums = {name: float(gauges[counter]) for name, counter in COUNTERS.items()}
        sums |= {name: float(metrics.facts[kind]) for name, kind in FACTS.items()}
        sums |= {"turn_seconds": gauges["turn_seconds"], "cpu": time.process_time()}
        sums["at"] = time.monotonic()
        buckets = list(metrics.buckets)
        before, self._before = self._before, sums
        old, self._buckets = self._buckets, buckets
        if before is None:
            return None
        span = max(0.001, sums["at"] - before["at"])
        more = {name: value - before[name] for name, value in sums.items()}
        fresh = [new - was for new, was in zip(buckets, old, strict=True)]
        return Point(
            **{name: more[name] / span for name in (*COUNTERS, *FACTS)},
            **{name: float(gauges[name]) for name in GAUGES},
            confirm_p50=quantile(fresh, 0.50),
            confirm_p99=quantile(fresh, 0.99),
            turn_seconds=more["turn_seconds"] / more["turns"] if more["turns"] else 0.0,
            busy=more["turn_seconds"] / span,
            loop_lag=late,
            memory=resident_bytes(),
            cpu=more["cpu"] / span,
            sample_seconds=self.took,
        )


def event(name: str, data: object) -> bytes:
    """One event of a stream."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def quantile(counts: list[int], share: float) -> float:
    """About how long so large a part took, from the buckets of the histogram: linear inside one."""
    wanted, below = share * sum(counts), 0
    bounds = (0.0, *SECONDS, SECONDS[-1] * 2)
    for (low, high), count in zip(pairwise(bounds), counts, strict=True):
        if count and below + count >= wanted:
            return low + (high - low) * (wanted - below) / count
        below += count
    return 0.0


def resident_bytes() -> float:
    """Memory that the process has, where the system says so."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * float(PAGE_BYTES)
    except (OSError, IndexError, ValueError):
        return 0.0
