"""What `headgate ntf check` finds, beside a server and without one, on both stores."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from headgate.ntf_server.check import findings
from headgate.ntf_server.config import NtfConfig, load_ntf_config
from headgate.ntf_server.records import Records
from headgate.server.wires.wire import Finding


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:ntf.db"
    found: str = request.getfixturevalue("url")
    return found


def config_in(folder: Path, store: str, port: int = 0) -> NtfConfig:
    path = folder / "ntf.toml"
    path.write_text(f'[ntf]\nstore = "{store}"\n[admin]\nport = {port}\n[listen.ntf]\nport = 0\n')
    return load_ntf_config(path, {})


def found(config: NtfConfig) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(config)}


async def test_a_store_in_use_is_only_read_and_its_ports_are_its_own(
    tmp_path: Path, store: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = config_in(tmp_path, store, taken.getsockname()[1])
        assert not (await asyncio.to_thread(found, config))["admin"].ok
        async with await Records.open(store, config.directory):
            report = await asyncio.to_thread(found, config)
    assert all(finding.ok for finding in report.values()), report
    assert "a server is running and uses it" in report["store"].text
    assert "a notification server is running and listens there" in report["admin"].text


def test_a_store_that_nobody_uses_is_opened(tmp_path: Path, store: str) -> None:
    config = config_in(tmp_path, store)
    found(config)
    report = found(config)
    assert report["store"].ok
    assert "running" not in report["store"].text


def test_a_database_that_is_away_fails(tmp_path: Path) -> None:
    report = found(config_in(tmp_path, "postgresql://me:sesame@127.0.0.1:1/nothing"))
    assert not report["store"].ok
    assert "cannot be reached" in report["store"].text
    assert "sesame" not in report["store"].text
