"""The router as a process: `headgate serve`, its admin port and its signals."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

DEADLINE_SECONDS = 30
CONFIG = """\
directory = "state"
[admin]
port = 0
[domains.orders]
max_messages = 5
"""


class Served:
    """A running `headgate serve` and its folder."""

    def __init__(self, folder: Path, ready: str = "ready.json", **environ: str) -> None:
        self.ready = folder / ready
        self.log = folder / f"log-{time.monotonic_ns()}.jsonl"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from headgate.cli import main; main()", "serve"),
                    *("--config", folder / "headgate.toml", "--ready-file", self.ready),
                ],
                stderr=log,
                stdout=log,
                env={**os.environ, **environ},
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

    def get(self, path: str, token: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
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

    def serve(config: str = CONFIG, ready: str = "ready.json", **environ: str) -> Served:
        (tmp_path / "headgate.toml").write_text(config)
        served = Served(tmp_path, ready, **environ)
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
    idle.request("GET", "/metrics")
    idle.getresponse().read()
    with socket.create_connection(("127.0.0.1", served.port)) as half:
        half.sendall(b"GET /metrics HTTP/1.1\r\n")
        before = time.monotonic()
        assert served.stop() == 0
    assert time.monotonic() - before < 3
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
    """C65: a bad expression in a domain that is loaded again leaves the old domain in place."""
    served = serve().started()
    wrong = "[domains.orders]\nsubscriptions = { '' = ['x = 1'] }"
    (tmp_path / "headgate.toml").write_text(wrong)
    served.process.send_signal(signal.SIGHUP)
    served.until(lambda: bool(served.lines("configuration not reloaded")))
    [line] = served.lines("configuration not reloaded")
    assert "domains.orders.subscriptions" in str(line["error"])
    assert served.get("/readyz")[0] == 200
    assert served.stop() == 0


def test_a_memory_store_writes_nothing(serve: Serve, tmp_path: Path) -> None:
    served = serve(CONFIG, HEADGATE_STORE__URL="memory:").started()
    assert not (tmp_path / "state").exists()
    assert served.stop() == 0


def test_systemd_is_told(serve: Serve, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(DEADLINE_SECONDS)
        served = serve(CONFIG, NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert channel.recv(100) == b"READY=1"
        assert served.stop() == 0
        assert channel.recv(100) == b"STOPPING=1"


def test_warnings_of_the_configuration_are_logged(serve: Serve) -> None:
    served = serve(CONFIG + '[domains.x]\nsubscriptions = { a = ["b > 1"] }\n')
    served.started()
    assert served.stop() == 0
    warnings = [str(line["warning"]) for line in served.lines("configuration")]
    assert [warning.split(":")[0] for warning in warnings] == ["domains.x.subscriptions.a"]
