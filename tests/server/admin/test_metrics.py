from __future__ import annotations

import asyncio
import math
import re
import shutil
import subprocess

import pytest

from headgate.core import facts as f
from headgate.core.commands import Open
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import WHOLE, MessageId, QueueId, ServiceId, SessionId
from headgate.core.model.limits import Limits
from headgate.server.admin.metrics import COUNTED, GAUGES, LABEL_VALUES, TOTALS, Metrics
from headgate.server.in_process import InProcessSession
from headgate.server.router import Router
from headgate.server.status import domain_gauges
from headgate.store.memory import MemoryStore

QUEUE, MESSAGE, SERVICE = QueueId(b"q"), MessageId(b"m"), ServiceId(b"s")
ONE, TWO = SessionId(1), SessionId(2)


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"headgate_{name}", labels)


def test_messages_deliveries_and_confirms_are_counted() -> None:
    metrics = Metrics()
    metrics.observe(
        [
            f.Accepted(0, QUEUE, MESSAGE, 10),
            f.Accepted(0, QUEUE, MESSAGE, 20),
            f.Delivered(0, QUEUE, WHOLE, MESSAGE, ONE, 0),
            f.Delivered(0, QUEUE, WHOLE, MESSAGE, ONE, 1),
            f.Confirmed(0, QUEUE, WHOLE, MESSAGE, ONE, 0.2),
        ]
    )
    assert value(metrics, "messages_received_total") == 2
    assert value(metrics, "messages_received_bytes_total") == 30
    assert value(metrics, "deliveries_total") == 2
    assert value(metrics, "redeliveries_total") == 1
    assert value(metrics, "confirms_total") == 1


def test_the_time_of_confirms_is_a_histogram() -> None:
    metrics = Metrics()
    metrics.observe(
        [f.Confirmed(0, QUEUE, WHOLE, MESSAGE, ONE, s) for s in (0.0, 0.001, 0.2, 10_000.0)]
    )
    assert value(metrics, "confirm_seconds_bucket", le="0.001") == 2
    assert value(metrics, "confirm_seconds_bucket", le="0.1") == 2
    assert value(metrics, "confirm_seconds_bucket", le="0.25") == 3
    assert value(metrics, "confirm_seconds_bucket", le="+Inf") == 4
    assert value(metrics, "confirm_seconds_count") == 4
    assert math.isclose(value(metrics, "confirm_seconds_sum") or 0, 10_000.201)


def test_sessions_displacements_refusals_limits_and_drift_have_labels() -> None:
    """S004-9: more, fewer or different than expected."""
    metrics = Metrics()
    metrics.observe(
        [
            f.SessionOpened(0, ONE, "resp", "me"),
            f.SessionClosed(0, ONE, "resp", "me", "slow"),
            f.Displaced(0, QUEUE, ONE, TWO),
            f.ServiceDisplaced(0, SERVICE, ONE, TWO, 3),
            f.Refused(0, QUEUE, "NoSuchQueue"),
            f.LimitReached(0, "sessions", 5, ONE),
            f.ServiceSubscribed(0, SERVICE, ONE, 3, "more"),
            f.ServiceSubscribed(0, SERVICE, ONE, 3, "none"),
            f.ServiceSubscribed(0, SERVICE, ONE, 3, "unknown"),
            f.CapacityChanged(0, "queue", "q", "high", "…"),
        ]
    )
    assert value(metrics, "sessions_opened_total", wire="resp") == 1
    assert value(metrics, "sessions_closed_total", wire="resp", reason="slow") == 1
    assert value(metrics, "displacements_total", kind="queue") == 1
    assert value(metrics, "displacements_total", kind="service") == 1
    assert value(metrics, "requests_refused_total", reason="NoSuchQueue") == 1
    assert value(metrics, "limits_reached_total", name="sessions") == 1
    assert value(metrics, "service_drift_total", kind="more") == 1
    assert value(metrics, "service_drift_total", kind="none") is None
    assert value(metrics, "service_subscriptions_total") == 3
    assert value(metrics, "capacity_changes_total", scope="queue", state="high") == 1


def test_a_fact_may_count_several_things_and_more_than_one_of_each() -> None:
    metrics = Metrics()
    metrics.observe([f.BodiesUnread(1.0, "jobs", 3, 2), f.BodiesUnread(2.0, "jobs", 4, 0)])
    text = metrics.exposition().decode()
    assert 'headgate_bodies_unread_total{domain="jobs"} 7.0' in text
    assert 'headgate_properties_unfit_total{domain="jobs"} 2.0' in text


def test_a_label_takes_no_more_than_so_many_values() -> None:
    metrics = Metrics()
    metrics.observe([f.SessionClosed(0, ONE, "smp", "", f"reason {n}") for n in range(1000)])
    samples = [s for m in metrics.collect() for s in m.samples if "sessions_closed" in s.name]
    assert len(samples) == LABEL_VALUES + 1
    assert sum(sample.value for sample in samples) == 1000
    assert value(metrics, "sessions_closed_total", wire="other", reason="other") == 968


def test_every_fact_is_counted_by_something() -> None:
    metrics = Metrics()
    assert {*COUNTED, *metrics.handlers} == set(f.KINDS)


def test_numbers_of_the_core_are_read_when_somebody_scrapes() -> None:
    numbers = {"sessions": 3.0}
    metrics = Metrics(lambda: numbers)
    assert b"headgate_sessions 3.0" in metrics.exposition()
    numbers["sessions"] = 4.0
    assert b"headgate_sessions 4.0" in metrics.exposition()


async def test_every_number_of_the_router_is_a_metric() -> None:
    router = Router(store=MemoryStore(), domains={}, limits=Limits())
    await router.start()
    try:
        of_desk = {"desk_viewers", "desk_sample_seconds", "loop_lag_seconds"}
        assert {*GAUGES, *TOTALS} - of_desk == set(router.gauges())
    finally:
        await router.stop()


async def test_a_session_of_the_router_is_counted() -> None:
    router = Router(store=MemoryStore(), domains={}, limits=Limits())
    metrics = Metrics(router.gauges)
    router.watch(metrics.observe)
    await router.start()
    try:
        InProcessSession(router, "one").close()
        InProcessSession(router, "two")
        assert value(metrics, "sessions") == 1
        assert value(metrics, "sessions_opened_total", wire="local") == 2
        assert value(metrics, "sessions_closed_total", wire="local", reason="closed") == 1
    finally:
        await router.stop()


def test_domains_have_labels_as_far_as_there_are_labels() -> None:
    numbers = {"messages": 2.0, "bytes": 8.0, "unconfirmed": 1.0, "queues": 1.0, "quota": 0.5}
    domains = [(f"d{n}", numbers) for n in range(LABEL_VALUES + 3)]
    text = Metrics().exposition({}, domains).decode()
    assert 'headgate_domain_backlog_messages{domain="d0"} 2.0' in text
    assert f'{{domain="d{LABEL_VALUES}"}}' not in text
    assert 'headgate_domain_backlog_messages{domain="other"} 6.0' in text
    assert 'headgate_domain_quota_ratio{domain="other"} 0.5' in text


def test_the_process_is_measured_without_counting_its_files() -> None:
    text = Metrics().exposition({}).decode()
    for name in ("cpu_seconds_total", "resident_memory_bytes", "max_fds", "start_time_seconds"):
        [line] = re.findall(rf"^process_{name} (\S+)$", text, re.M)
        assert float(line) > 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="comes with Debian's prometheus")
async def test_promtool_has_nothing_to_say_of_the_metrics() -> None:
    domains = {"orders": Domain("orders", Mode.PRIORITY)}
    router = Router(store=MemoryStore(), domains=domains, limits=Limits())
    metrics = Metrics()
    router.watch(metrics.observe)
    await router.start()
    try:
        session = InProcessSession(router, "one")
        await session.ask(Open, QueueId(b"bmq://orders/q"), "orders")
        text = metrics.exposition(router.gauges(), domain_gauges(router.broker.shard))
    finally:
        await router.stop()
    checking = ["promtool", "check", "metrics"]
    done = await asyncio.to_thread(subprocess.run, checking, input=text, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_unlabelled_counter_is_there_before_anything_happened() -> None:
    samples = {s.name for m in Metrics().collect() for s in m.samples if not s.labels}
    assert "headgate_turn_failures_total" in samples
    assert "headgate_redeliveries_total" in samples


def test_a_counter_with_labels_that_are_known_is_there_before_anything_happened() -> None:
    metrics = Metrics()
    for kind in ("queue", "notifier", "service"):
        assert value(metrics, "displacements_total", kind=kind) == 0
    for drift in ("more", "fewer", "different"):
        assert value(metrics, "service_drift_total", kind=drift) == 0
    assert value(metrics, "service_drift_total", kind="none") is None
    for wire in ("bmq", "resp", "smp"):
        assert value(metrics, "sessions_opened_total", wire=wire) == 0
        assert value(metrics, "authentications_failed_total", wire=wire) == 0


def test_what_is_running_is_a_metric() -> None:
    assert b'headgate_build_info{python="3.' in Metrics().exposition()
