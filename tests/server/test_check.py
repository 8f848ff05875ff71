from __future__ import annotations

import asyncio
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.server.check import findings
from headgate.server.config import Config, load_config
from headgate.server.state_directory import open_store
from headgate.server.wires.wire import Finding
from headgate.store.ownership import Ownership
from tests.support.certificates import make_certificate


def config_in(folder: Path, text: str = "", directory: str = "state", port: int = 0) -> Config:
    path = folder / "headgate.toml"
    path.write_text(f'directory = "{directory}"\n[admin]\nport = {port}\n{text}')
    return load_config(path, {})


def found(config: Config) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(config)}


@contextmanager
def running(config: Config) -> Iterator[None]:
    """A router's lock on the store."""
    with asyncio.Runner() as runner:
        store = open_store(config)
        runner.run(store.open())
        try:
            yield
        finally:
            runner.run(store.close())


def test_a_new_folder_is_fine_and_stays_empty(tmp_path: Path) -> None:
    report = found(config_in(tmp_path))
    assert all(finding.ok for finding in report.values())
    assert report["store"].text == "sqlite:queues.db (will be made)"
    assert report["directory"].text.endswith("state (will be made)")
    assert report["listen"].text.startswith("warning: no [listen.*] section: no client can connect")
    assert [p.name for p in tmp_path.iterdir()] == ["headgate.toml"]


def test_a_store_is_opened_and_counted(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with running(config):
        pass
    assert found(config)["store"] == Finding("store", True, "sqlite:queues.db (0 queues)")


def test_a_store_in_use_is_only_read(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with running(config):
        store = found(config)["store"]
    assert store.ok
    assert "a router is running" in store.text


def test_a_store_that_is_no_database_fails(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    config.directory.mkdir()
    (config.directory / "queues.db").write_bytes(b"not a database" * 1000)
    store = found(config)["store"]
    assert not store.ok
    assert "not an SQLite database" in store.text


def test_a_memory_store_needs_nothing(tmp_path: Path) -> None:
    report = found(config_in(tmp_path, '[store]\nurl = "memory:"'))
    assert report["directory"].text == "not needed"
    assert "forgets" in report["store"].text


def test_a_state_directory_that_is_a_file_fails(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    config.directory.write_text("")
    directory = found(config)["directory"]
    assert not directory.ok
    assert "set directory in the configuration" in directory.text


def test_a_state_directory_below_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = found(config_in(tmp_path, directory="file/state"))["directory"]
    assert not directory.ok
    assert "cannot be made in" in directory.text


def test_a_taken_port_fails_unless_a_router_runs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = config_in(tmp_path, port=taken.getsockname()[1])
        assert not found(config)["admin"].ok
        with running(config):
            admin = found(config)["admin"]
    assert admin.ok
    assert "a router is running" in admin.text


def test_a_port_that_nobody_answers_on_fails_even_if_a_router_runs(tmp_path: Path) -> None:
    with socket.socket() as bound:  # and not listening: neither free nor answering
        bound.bind(("127.0.0.1", 0))
        config = config_in(tmp_path, port=bound.getsockname()[1])
        with running(config):
            assert not found(config)["admin"].ok


def test_file_descriptors_are_compared_with_the_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 500))
    few = found(config_in(tmp_path, "[listen.smp]\n[limits]\nsessions = 1000"))["files"]
    assert few.ok
    assert "500 file descriptors are allowed: at most 308 sessions" in few.text
    assert found(config_in(tmp_path, "[listen.smp]\n[limits]\nsessions = 300"))["files"].ok
    assert found(config_in(tmp_path, "[limits]\nsessions = 1000"))["files"].ok


def test_warnings_are_in_the_line_of_the_configuration(tmp_path: Path) -> None:
    config = found(config_in(tmp_path, "[domains.d]\nsubscriptions = { a = ['b > 1'] }"))["config"]
    assert "(1 domain); warning: domains.d.subscriptions.a: ignored" in config.text


def test_users_that_cannot_be_read_are_a_finding(tmp_path: Path) -> None:
    listen = "[listen.resp]\nport = 0\n"
    assert found(config_in(tmp_path, listen))["users"] == Finding("users", True, "1 user")
    missing = found(config_in(tmp_path, listen + 'acl_file = "users.acl"'))["users"]
    assert not missing.ok
    assert "No such file or directory" in missing.text
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "users.acl").write_text("user bob on nopass\n")
    assert found(config_in(tmp_path, listen + 'acl_file = "users.acl"'))["users"].text == "2 users"


@pytest.mark.parametrize("wire", ["smp", "resp", "bmq"])
def test_the_port_of_every_listener_is_looked_at(tmp_path: Path, wire: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        report = found(config_in(tmp_path, f"[listen.{wire}]\nport = {taken.getsockname()[1]}"))
    assert not report[f"listen.{wire}"].ok
    assert "listen" not in report


@pytest.mark.parametrize("wire", ["resp", "bmq"])
def test_the_certificate_of_every_listener_is_looked_at(tmp_path: Path, wire: str) -> None:
    make_certificate(tmp_path)
    text = f"[listen.{wire}]\nport = 0\n[listen.{wire}.tls]\n"
    assert found(config_in(tmp_path, text))[f"listen.{wire}.tls"].ok
    wrong = found(config_in(tmp_path, text + 'key = "server.crt"'))[f"listen.{wire}.tls"]
    assert not wrong.ok


@pytest.mark.parametrize("is_inside", [True, False])
def test_loopback_inside_a_container_is_a_warning(
    is_inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.server.check.is_in_container", lambda: is_inside)
    report = found(config_in(tmp_path, "[listen.smp]\nport = 0\n[listen.resp]\nport = 0\n"))
    if not is_inside:
        assert "container" not in report
        return
    assert report["container"].ok
    text = report["container"].text
    assert text.startswith("warning: admin, listen.smp, listen.resp on loopback inside a container")
    assert "HEADGATE_LISTEN__RESP__HOST=0.0.0.0" in text


def test_what_is_reached_from_outside_of_a_container_is_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.server.check.is_in_container", lambda: True)
    config = load_config(
        config_in(tmp_path, '[listen.smp]\nhost = "0.0.0.0"\nport = 0\n').source,
        {"HEADGATE_ADMIN__HOST": "0.0.0.0", "HEADGATE_ADMIN__TOKEN": "a token that is long"},
    )
    assert "container" not in found(config)


STANDBY = '[store]\nurl = "{url}"\nstandby = true\n[listen.smp]\nport = 0'


def test_a_database_is_told_of_with_what_its_server_could_lose(tmp_path: Path, url: str) -> None:
    """The server of the tests waits for no disk."""
    report = found(config_in(tmp_path, f'[store]\nurl = "{url}"'))
    assert report["store"].ok
    assert "warning: fsync is off" in report["store"].text
    assert "synchronous_standby_names" not in report["store"].text
    assert "standby" not in report


def test_a_router_that_would_wait_is_told_whom_for(tmp_path: Path, url: str) -> None:
    config = config_in(tmp_path, STANDBY.format(url=url))
    before = found(config)
    assert before["standby"].text == "nobody has the store: this router would serve"
    assert "synchronous_standby_names is empty" in before["store"].text
    with running(config):
        report = found(config)
    assert report["store"].ok
    assert report["standby"].ok
    assert re.fullmatch(
        r"headgate on .* has the store: this router would wait", report["standby"].text
    )


def test_a_router_that_clients_would_refuse_is_told_what_to_do(tmp_path: Path, url: str) -> None:
    config = config_in(tmp_path, STANDBY.format(url=url))
    ownership = Ownership(3.0, lambda: 0.0, lambda known, is_ours: bytes(32))
    with asyncio.Runner() as runner:
        store = open_store(config, ownership)
        runner.run(store.open())
        runner.run(store.close())
    report = found(config)
    assert not report["standby"].ok
    assert "Copy the folder from the other router" in report["standby"].text


def test_a_database_that_cannot_be_reached_fails(tmp_path: Path) -> None:
    config = config_in(tmp_path, STANDBY.format(url="postgresql://127.0.0.1:1/x"))
    report = found(config)
    assert not report["store"].ok
    assert not report["standby"].ok
