"""A router of two workers looks like one from outside: what worker 0 tells has sessions of both."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.resp_workers import Workers, eventually, started, worker_of

OPERATOR = "operators only, forty characters of them"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    folder = tmp_path_factory.mktemp("two")
    with started(folder, admin=f'operator_token = "{OPERATOR}"') as workers:
        yield workers


def get(workers: Workers, path: str) -> Any:  # noqa: ANN401
    return json.loads(workers.ask(path)[1])


def gauge(workers: Workers, name: str) -> float:
    text = workers.ask("/metrics")[1].decode()
    found = re.search(rf"^headgate_{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0  # a worker that has not reported yet has none


def test_sessions_of_both_workers_are_listed(two: Workers) -> None:
    clients = [two.client(client_name=f"listed-{number}") for number in range(6)]
    ids = {client.client_id(): worker_of(client, 2) for client in clients}
    assert {*ids.values()} == {0, 1}

    found = get(two, "/api/v1/sessions?q=listed&sort=newest")
    assert {row["session"]: row["worker"] for row in found["rows"]} == ids
    assert found["total"] == 6
    assert found["wires"] == {"resp": 6}
    opened = [row["opened"] for row in found["rows"]]
    assert opened == sorted(opened, reverse=True)

    pages = [
        get(two, f"/api/v1/sessions?sort=oldest&limit=2&offset={offset}")["rows"]
        for offset in (0, 2, 4)
    ]
    assert [row["session"] for page in pages for row in page] == list(ids)

    status = get(two, "/status.json?sort=-session")
    rows = status["sessions"]
    assert {row["session"]: row["worker"] for row in rows} == ids
    assert [row["session"] for row in rows] == sorted(ids, reverse=True)
    assert status["page"]["total"]["sessions"] == 6
    for client in clients:
        client.close()


def test_one_session_of_each_worker_is_shown(two: Workers) -> None:
    for worker in (0, 1):
        client = two.client_on(worker, client_name=f"shown-{worker}")
        pubsub = client.pubsub()  # type: ignore[no-untyped-call]
        pubsub.subscribe(f"heard-{worker}")
        pubsub.get_message(timeout=10)
        connection = pubsub.connection
        assert connection is not None
        rows = get(two, "/api/v1/sessions?sort=subscriptions&limit=1")["rows"]
        found = get(two, f"/api/v1/sessions/{rows[0]['session']}")
        assert found["channels"] == [f"heard-{worker}"]
        assert found["row"]["worker"] == rows[0]["session"] % 2
        pubsub.close()
        client.close()
    assert two.ask("/api/v1/sessions/999999")[0] == 404


def test_gauges_are_sums_and_have_workers(two: Workers) -> None:
    clients = [two.client_on(worker) for worker in (0, 1, 0, 1)]

    def are_all_there() -> bool:
        by_worker = [gauge(two, f'worker_sessions{{worker="{worker}"}}') for worker in (0, 1)]
        return gauge(two, "sessions") == 4 and by_worker == [2, 2]

    eventually(are_all_there, "the gauges have all sessions")
    assert gauge(two, 'worker_resident_bytes{worker="1"}') > 1e6
    before = gauge(two, "channel_messages_total")
    for client in clients:
        client.publish("counted", "x")
    eventually(
        lambda: gauge(two, "channel_messages_total") == before + 4, "both workers' messages count"
    )
    for client in clients:
        client.close()


def test_a_slow_session_of_another_worker_needs_attention(two: Workers) -> None:
    slow = two.client_on(1, client_name="sleepy", socket_timeout=None)
    assert slow.connection is not None
    slow.connection.send_command("SUBSCRIBE", "flood")  # type: ignore[no-untyped-call]
    slow.connection.read_response()
    publisher = two.client_on(0, client_name="eager", socket_timeout=None)
    assert publisher.connection is not None
    for _ in range(200):
        publisher.connection.send_command("PUBLISH", "flood", b"x" * 100_000)  # type: ignore[no-untyped-call]
        if gauge(two, "sessions_slow"):
            break

    def is_seen() -> bool:
        rows = get(two, "/api/v1/sessions?slow=true")["rows"]
        return any(row["name"] == "sleepy" and row["worker"] == 1 for row in rows)

    eventually(is_seen, "the session of worker 1 is among those that are slow")
    eventually(lambda: gauge(two, "sessions_slow") >= 1, "it is in the gauges")

    def needs_attention() -> bool:
        rows = get(two, "/api/v1/attention")["rows"]
        return any("sleepy" in row["title"] + row["text"] for row in rows)

    eventually(needs_attention, "attention names it")
    publisher.connection.disconnect()  # type: ignore[no-untyped-call]
    slow.connection.disconnect()  # type: ignore[no-untyped-call]


def test_an_operator_closes_a_session_of_another_worker(two: Workers) -> None:
    client = two.client_on(1, client_name="unwanted")
    number = client.client_id()
    admin = two.ready["admin"]
    request = urllib.request.Request(
        f"http://{admin['host']}:{admin['port']}/api/v1/sessions/{number}/close",
        data=json.dumps({"confirm": str(number)}).encode(),
        headers={"Authorization": f"Bearer {OPERATOR}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.loads(answer.read())["outcome"] == "closed"
    eventually(lambda: two.ask(f"/api/v1/sessions/{number}")[0] == 404, "it is gone")
    client.close()


def test_the_command_line_shows_workers(two: Workers) -> None:
    client = two.client_on(1, client_name="by-command")
    admin = two.ready["admin"]
    found = subprocess.run(
        [
            *(sys.executable, "-c", "from headgate.cli import main; main()", "session", "ls"),
            *("--url", f"http://{admin['host']}:{admin['port']}"),
            *("--token-file", admin["token_file"], "--json"),
        ],
        capture_output=True,
        check=True,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert b"by-command" in found.stdout
    client.close()


def test_the_admin_port_answers_while_worker_0_is_away(tmp_path: Path) -> None:
    with started(tmp_path) as workers:
        admin, process = workers.ready["admin"], workers.process_of(0)
        os.kill(process, signal.SIGKILL)
        seen = set()

        def is_back() -> bool:
            assert status_of(admin, "/healthz") == 200
            seen.add(status_of(admin, "/readyz"))
            return len(workers.events("serving")) == 2

        eventually(is_back, "worker 0 is started again")
        eventually(lambda: status_of(admin, "/readyz") == 200, "all are ready")
        assert 503 in seen
        assert workers.ready["admin"]["port"] == admin["port"]


def status_of(admin: dict[str, Any], path: str) -> int:
    """Of an answer, whoever gives it. One that worker 0 took when it died has none."""
    while True:
        asking = http.client.HTTPConnection(admin["host"], admin["port"], timeout=30)
        with closing(asking), suppress(ConnectionError, http.client.HTTPException):
            asking.request("GET", path)
            with asking.getresponse() as answer:
                return answer.status
