"""The router as a process: `headgate serve`, its admin port and its signals."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from click.testing import CliRunner

from headgate.cli import cli
from headgate.server.identity import make
from tests.support.certificates import make_certificate

DEADLINE_SECONDS = 120
CONFIG = """\
directory = "state"
[admin]
port = 0
[domains.orders]
max_messages = 5
"""


class Served:
    """A running `headgate serve` and its folder."""

    def __init__(
        self,
        folder: Path,
        ready: str = "ready.json",
        code: str = "",
        pass_fds: Sequence[int] = (),
        **environ: str,
    ) -> None:
        self.ready = folder / ready
        self.log = folder / f"log-{time.monotonic_ns()}.jsonl"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", f"{code}from headgate.cli import main; main()"),
                    "serve",
                    *("--config", folder / "headgate.toml", "--ready-file", self.ready),
                ],
                stderr=log,
                stdout=log,
                env={**os.environ, **environ},
                pass_fds=pass_fds,
            )

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)

    def started(self) -> Served:
        self.until(self.ready.exists)
        return self

    @property
    def port(self) -> int:
        port: int = json.loads(self.ready.read_text())["admin"]["port"]
        return port

    @property
    def token(self) -> str | None:
        """What is in the file that the ready file names, if it names one."""
        path = json.loads(self.ready.read_text())["admin"]["token_file"]
        return None if path is None else Path(path).read_text().strip()

    def get(self, path: str, token: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        token = token or self.token
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    def lines(self, event: str) -> list[dict[str, object]]:
        parsed = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in parsed if line["event"] == event]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_SECONDS)


Serve: TypeAlias = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    running: list[Served] = []

    def serve(
        config: str = CONFIG,
        ready: str = "ready.json",
        code: str = "",
        pass_fds: Sequence[int] = (),
        **environ: str,
    ) -> Served:
        (tmp_path / "headgate.toml").write_text(config)
        served = Served(tmp_path, ready, code, pass_fds, **environ)
        running.append(served)
        return served

    yield serve
    for served in running:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()


def refused(served: Served) -> str:
    """The one line of a router that did not start."""
    assert served.process.wait(DEADLINE_SECONDS) == 1
    said = [line for line in served.log.read_text().splitlines() if not line.startswith("{")]
    assert len(said) == 1
    assert not served.ready.exists()
    return said[0]


def test_a_router_answers_until_it_is_told_to_stop(serve: Serve, tmp_path: Path) -> None:
    served = serve().started()
    assert served.get("/healthz") == (200, b'{"status":"ok"}\n')
    assert served.get("/readyz") == (200, b"[]\n")
    status, body = served.get("/status.json?limit=10")
    assert status == 200
    assert [domain["domain"] for domain in json.loads(body)["domains"]] == ["orders", "smp"]
    status, body = served.get("/metrics")
    assert status == 200
    assert b"headgate_turns_total" in body
    assert served.get("/nope")[0] == 404
    assert served.stop() == 0
    assert not served.ready.exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".ready")] == []
    assert (tmp_path / "state" / "queues.db").exists()
    assert served.lines("serving")
    assert served.lines("stopped")


def test_ctrl_c_is_a_clean_stop_too(serve: Serve) -> None:
    served = serve().started()
    assert served.stop(signal.SIGINT) == 0
    assert not served.ready.exists()


def test_an_open_connection_does_not_hold_the_stop(serve: Serve) -> None:
    served = serve().started()
    idle = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    idle.request("GET", "/healthz")
    idle.getresponse().read()
    with socket.create_connection(("127.0.0.1", served.port)) as half:
        half.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert served.stop() == 0
    idle.close()


def test_a_router_starts_again_where_it_was_killed(serve: Serve) -> None:
    served = serve().started()
    served.stop(signal.SIGKILL)
    assert served.ready.exists()
    again = serve()
    again.until(lambda: bool(again.lines("serving")))
    assert again.get("/readyz")[0] == 200
    assert again.stop() == 0


def test_a_second_router_on_the_same_state_is_refused(serve: Serve, tmp_path: Path) -> None:
    served = serve().started()
    second = Served(tmp_path)
    assert second.process.wait(DEADLINE_SECONDS) == 1
    assert "another router uses it" in second.log.read_text()
    assert served.get("/readyz")[0] == 200  # its ready file is still there
    assert served.stop() == 0


def test_a_port_that_is_taken_is_one_line(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(serve(CONFIG.replace("port = 0", f"port = {port}")))
    assert line.startswith(f"headgate: cannot listen on 127.0.0.1 port {port}: ")


def test_a_state_directory_that_cannot_be_made_is_one_line(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    assert "state cannot be written: " in refused(serve())


def test_a_ready_file_that_cannot_be_written_is_one_line(serve: Serve) -> None:
    line = refused(serve(ready="nowhere/ready.json"))
    assert line.endswith("nowhere/ready.json cannot be written: No such file or directory")


def test_beyond_loopback_a_token_is_needed(serve: Serve) -> None:
    line = refused(serve(CONFIG.replace("[admin]", '[admin]\nhost = "0.0.0.0"')))
    assert "admin.host: 0.0.0.0 is beyond loopback" in line


def test_beyond_loopback_clients_of_queues_show_who_they_are(serve: Serve) -> None:
    line = refused(serve(CONFIG + '[listen.bmq]\nhost = "0.0.0.0"\nport = 0\n'))
    assert "listen.bmq.host: 0.0.0.0 is beyond loopback" in line
    assert "insecure = true" in line


def test_a_token_from_the_environment_is_asked_for_and_not_logged(serve: Serve) -> None:
    served = serve(CONFIG + "[log]\nlevel = 'debug'", HEADGATE_ADMIN__TOKEN="sesame").started()
    assert served.get("/healthz")[0] == 200
    assert served.get("/status.json")[0] == 401
    assert served.get("/status.json", "sesame")[0] == 200
    assert served.stop() == 0
    assert "sesame" not in served.log.read_text()


def test_a_hangup_reloads_the_domains(serve: Serve, tmp_path: Path) -> None:
    served = serve().started()
    more = CONFIG.replace("port = 0", "port = 1") + "[domains.more]\nmode = 'broadcast'\n"
    (tmp_path / "headgate.toml").write_text(more)
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration reloaded")))
    [line] = served.lines("configuration reloaded")
    assert line["domains"] == 2
    assert line["after_restart"] == "admin.port"

    def domains() -> set[str]:
        return {d["domain"] for d in json.loads(served.get("/status.json")[1])["domains"]}

    served.until(lambda: domains() == {"orders", "more", "smp"})
    assert served.stop() == 0


def test_a_hangup_with_a_wrong_file_keeps_the_old_one(serve: Serve, tmp_path: Path) -> None:
    """BMQ-65: a bad expression in a domain that is loaded again leaves the old domain in place."""
    served = serve().started()
    wrong = "[domains.orders]\nsubscriptions = { '' = ['x = 1'] }"
    (tmp_path / "headgate.toml").write_text(wrong)
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration not reloaded")))
    [line] = served.lines("configuration not reloaded")
    assert "domains.orders.subscriptions" in str(line["error"])
    assert served.get("/readyz")[0] == 200
    assert served.stop() == 0


def test_a_memory_store_leaves_nothing(serve: Serve, tmp_path: Path) -> None:
    served = serve(CONFIG, HEADGATE_STORE__URL="memory:").started()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["admin.token"]
    assert served.stop() == 0
    assert not (tmp_path / "state").exists()


def test_systemd_is_told_of_the_start_of_progress_of_a_reload_and_of_the_end(
    serve: Serve, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(DEADLINE_SECONDS)

        def heard() -> str:
            """What comes next that is no sign of life."""
            while (state := channel.recv(100).decode()) == "WATCHDOG=1":
                signs.append(state)
            return state

        signs: list[str] = []
        served = serve(
            CONFIG, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC=str(20_000_000)
        )
        assert channel.recv(100) == b"READY=1"  # and no sign of life before it
        assert channel.recv(100) == b"WATCHDOG=1"
        served.process.send_signal(signal.SIGHUP)
        state, at = heard().split("\n")
        assert state == "RELOADING=1"
        assert 0 < int(at.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000
        assert heard() == "READY=1"
        assert served.stop() == 0
        assert heard() == "STOPPING=1"
        channel.settimeout(0)
        with pytest.raises(BlockingIOError):
            channel.recv(100)


def test_a_socket_that_nobody_listens_on_is_named(serve: Serve) -> None:
    """As systemd would pass it, under the name of a wire that has no section."""
    passing = "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); "
    with socket.create_server(("127.0.0.1", 0)) as listening:
        served = serve(
            CONFIG,
            code=passing + "os.dup2(int(os.environ['PASSED']), 3); ",
            pass_fds=[listening.fileno()],
            PASSED=str(listening.fileno()),
            LISTEN_FDS="1",
            LISTEN_FDNAMES="bmq",
        ).started()
        [line] = served.lines("a socket was passed that nobody listens on")
        assert line["name"] == "bmq"
        assert served.stop() == 0


def test_the_admin_port_is_a_socket_that_was_passed(serve: Serve) -> None:
    passing = "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); "
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        served = serve(
            CONFIG,
            code=passing + "os.dup2(int(os.environ['PASSED']), 3); ",
            pass_fds=[listening.fileno()],
            PASSED=str(listening.fileno()),
            LISTEN_FDS="1",
            LISTEN_FDNAMES="admin",
        )
        # Who comes before the router is there waits for it.
        early = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
        early.request("GET", "/healthz")
        assert early.getresponse().status == 200
        early.close()
        assert served.started().port == port
        assert served.stop() == 0


def test_warnings_of_the_configuration_are_logged(serve: Serve) -> None:
    served = serve(CONFIG + '[domains.x]\nsubscriptions = { a = ["b > 1"] }\n')
    served.started()
    assert served.stop() == 0
    warnings = [str(line["warning"]) for line in served.lines("configuration")]
    assert "domains.x.subscriptions.a" in [warning.split(":")[0] for warning in warnings]


def test_a_port_that_was_changed_and_changed_back_waits_for_nothing(
    serve: Serve, tmp_path: Path
) -> None:
    served = serve().started()
    for text in (CONFIG.replace("port = 0", "port = 1"), CONFIG):
        (tmp_path / "headgate.toml").write_text(text)
        before = len(served.lines("configuration reloaded"))
        served.process.send_signal(signal.SIGHUP)
        served.until(lambda: len(served.lines("configuration reloaded")) > before)  # noqa: B023
    first, second = served.lines("configuration reloaded")
    assert first["after_restart"] == "admin.port"
    assert "after_restart" not in second


def test_a_secret_that_was_changed_waits_for_a_restart(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("old")
    served = serve(CONFIG + '[listen.resp]\nport = 0\npassword = "file:password"\n').started()
    (tmp_path / "password").write_text("new")
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration reloaded")))
    [line] = served.lines("configuration reloaded")
    assert line["after_restart"] == "listen.resp.password"


def shown(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=DEADLINE_SECONDS)


def test_a_hangup_reads_certificates_again_and_keeps_them_if_the_new_ones_are_wrong(
    serve: Serve, tmp_path: Path
) -> None:
    certificate, key = make_certificate(tmp_path)
    names = ("resp", "bmq")
    served = serve(
        CONFIG + "".join(f"[listen.{n}]\nport = 0\n[listen.{n}.tls]\n" for n in names)
    ).started()
    ready = json.loads(served.ready.read_text())
    ports = [ready[name]["port"] for name in names]
    old = certificate.read_text()
    assert [shown(port) for port in ports] == [old, old]
    make_certificate(tmp_path)
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration reloaded")))
    new = certificate.read_text()
    assert new != old
    assert [shown(port) for port in ports] == [new, new]
    key.write_text("nothing")
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration not reloaded")))
    assert [shown(port) for port in ports] == [new, new]
    assert served.stop() == 0


def test_other_signals_do_not_end_a_router(serve: Serve) -> None:
    served = serve().started()
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        served.process.send_signal(number)
    served.until(lambda: len(served.lines("a signal without a meaning")) == 2)
    assert served.get("/healthz")[0] == 200
    assert served.stop() == 0


def test_a_router_that_nobody_can_connect_to_says_so(serve: Serve) -> None:
    served = serve().started()
    [line] = served.lines("configuration")
    assert str(line["warning"]).startswith("no [listen.*] section: no client can connect")


def test_the_address_has_the_name_that_init_was_given(serve: Serve, tmp_path: Path) -> None:
    config = CONFIG + "[listen.smp]\nport = 0\n"
    (tmp_path / "headgate.toml").write_text(config)
    told = ["init", "--config", str(tmp_path / "headgate.toml")]
    given = CliRunner().invoke(cli, [*told, "--host", "relay.example.org"]).stdout
    assert "@relay.example.org:" in given
    assert "@relay.example.org:" in CliRunner().invoke(cli, told).stdout
    served = serve(config).started()
    served.until(lambda: bool(served.lines("serving")))
    [line] = served.lines("serving")
    assert str(line["smp"]).startswith(given.rpartition(":")[0])


def test_what_a_router_writes_is_for_its_owner_alone(serve: Serve, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        served = serve().started()
    finally:
        os.umask(before)
    assert served.ready.stat().st_mode & 0o777 == 0o600
    assert served.stop() == 0
    found = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert any(path.suffix == ".parquet" for path in found)
    for path in found:
        assert (path, path.stat().st_mode & 0o777) == (path, 0o700 if path.is_dir() else 0o600)


def test_a_hangup_does_not_make_a_router_another_one(serve: Serve, tmp_path: Path) -> None:
    served = serve(CONFIG + "[listen.smp]\nport = 0\n").started()
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration reloaded")))
    identity = tmp_path / "state" / "identity"
    identity.rename(tmp_path / "old")
    make(identity, "relay.example.org", time.time())
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration not reloaded")))
    [line] = served.lines("configuration not reloaded")
    assert line["error"] == "the identity is another; restart the router to take it over"
    assert served.stop() == 0
