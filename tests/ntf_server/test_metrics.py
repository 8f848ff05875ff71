"""What a notification server shows to Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.core.facts import HandshakeFailed, LimitReached
from headgate.core.model.ids import SessionId
from headgate.notify.outcomes import Dead, Delivered
from headgate.notify.push_content import CheckPush
from headgate.ntf_server import metrics as described
from headgate.ntf_server.census import Census
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.metrics import NtfMetrics
from headgate.ntf_server.push_times import PushTimes, TimedProvider, timed
from headgate.ntf_server.records import tokens
from headgate.ntf_server.server import NtfServer
from headgate.server.admin.metrics import BUILD, LABEL_VALUES, full_name
from headgate.server.identity import Identity
from headgate.wire.ntf.devices import ApnsDevice, Provider
from headgate.wire.ntf.statuses import InvalidReason, TokenStatus
from tests.ntf_server.test_server import SETTINGS, registered
from tests.support.ntf_app import App
from tests.support.ntf_examples import TEST_DEVICE
from tests.support.ntf_notifiers import until
from tests.support.ntf_pushes import KeepingProvider, when
from tests.support.ntf_tokens import token_in


def shown(metrics: NtfMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """Names and the values of labels, and what they say."""
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture
def provider() -> KeepingProvider:
    return KeepingProvider()


@pytest.fixture
def metrics() -> NtfMetrics:
    metrics = NtfMetrics()
    metrics.times = {Provider.APNS_TEST: PushTimes()}
    return metrics


@pytest.fixture
async def server(
    tmp_path: Path, provider: KeepingProvider, metrics: NtfMetrics
) -> AsyncIterator[NtfServer]:
    identity = await asyncio.to_thread(Identity.open, tmp_path / "id", "localhost", time.time())
    providers = timed({Provider.APNS_TEST: provider}, metrics.times)
    settings = replace(SETTINGS, periodic=False)
    async with await NtfServer.open(NtfHost(), identity, tmp_path, settings, providers) as server:
        yield server


def test_before_there_is_a_server_the_build_is_shown() -> None:
    [(name, _)] = shown(NtfMetrics())
    assert name == full_name(BUILD)


async def test_every_metric_is_there_with_its_help(server: NtfServer, metrics: NtfMetrics) -> None:
    metrics.show(server, Census(server.records))
    found = {family.name: family.documentation for family in metrics.collect()}
    every = (
        *(BUILD, *described.GAUGES, *described.TOTALS),
        *(described.LIMITS, described.HANDSHAKES, described.PUSH_SECONDS),
    )
    assert found == {full_name(each): each.help for each in every}


async def test_what_is_counted_is_shown(
    server: NtfServer, metrics: NtfMetrics, provider: KeepingProvider
) -> None:
    census = Census(server.records)
    metrics.show(server, census)
    dead = replace(token_in(TokenStatus.INVALID), device=ApnsDevice(Provider.APNS, b"dead"))
    await server.records.write(tokens.put, dead)
    async with await App.connect(server.address) as app:
        provider.answers = [Delivered()]
        await registered(app, provider)
        await until(when(lambda: server.pusher.outcomes))
        await census.take()
        found = shown(metrics)
        assert found["headgate_ntf_apps", ()] == 1
    assert found["headgate_ntf_tokens", ("ACTIVE",)] == 1
    assert found["headgate_ntf_tokens", ("INVALID",)] == 1
    assert found["headgate_ntf_tokens", ("NEW",)] == 0
    assert found["headgate_ntf_subscriptions", ("ACTIVE",)] == 0
    pushes = {labels: count for (name, labels), count in found.items() if "pushes_total" in name}
    assert pushes == {("code", "delivered", "apns_test"): 1}
    assert found["headgate_ntf_push_seconds_count", ("apns_test",)] == 1
    assert found["headgate_ntf_store_commits_total", ()] > 0


async def test_a_census_is_taken_when_something_changed(server: NtfServer) -> None:
    census = Census(server.records)
    await census.take()
    statements = server.records.statements
    await census.take()
    assert server.records.statements == statements
    await server.records.write(tokens.put, token_in(TokenStatus.ACTIVE))
    await census.take()
    assert census.tokens == {TokenStatus.ACTIVE: 1}


async def test_a_store_that_fails_leaves_the_last_census(
    server: NtfServer, caplog: pytest.LogCaptureFixture
) -> None:
    census = Census(server.records)
    await server.records.write(tokens.put, token_in(TokenStatus.ACTIVE))
    await census.take()
    await server.records.write(tokens.put, token_in(TokenStatus.INVALID))
    await server.records.close()
    await census.take()
    assert census.tokens == {TokenStatus.ACTIVE: 1}
    assert "nothing was counted" in caplog.text


async def test_what_apps_run_into_is_counted_within_bounds(
    server: NtfServer, metrics: NtfMetrics
) -> None:
    metrics.show(server, Census(server.records))
    metrics.observe([LimitReached(1.0, "ntf.connections", 1, SessionId(0))])
    metrics.observe([HandshakeFailed(1.0, "ntf", f"reason {n}") for n in range(100)])
    found = shown(metrics)
    assert found["headgate_limits_reached_total", ("ntf.connections",)] == 1
    failed = {labels: n for (name, labels), n in found.items() if "handshakes" in name}
    assert len(failed) == LABEL_VALUES + 1
    assert failed["other", "other"] == 100 - LABEL_VALUES


async def test_pushes_are_timed_also_those_that_fail() -> None:
    now = iter([0.0, 0.02, 1.0, 3.0, 5.0, 105.0])
    times, provider = PushTimes(), KeepingProvider()
    timed_one = TimedProvider(provider, times, lambda: next(now))
    provider.answers = [Delivered(), Dead(InvalidReason.BAD), RuntimeError()]
    assert await timed_one.push(TEST_DEVICE, CheckPush()) == Delivered()
    assert await timed_one.push(TEST_DEVICE, CheckPush()) == Dead(InvalidReason.BAD)
    with pytest.raises(RuntimeError):
        await timed_one.push(TEST_DEVICE, CheckPush())
    assert sum(times.buckets) == 3
    assert times.buckets[-1] == 1
    assert times.seconds == pytest.approx(102.02)
    await timed_one.close()
    assert provider.is_closed
