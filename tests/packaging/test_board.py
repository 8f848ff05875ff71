"""The board is what its table says, and a Prometheus that watches a router answers its queries."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from headgate.client.bmq import Client
from tests.support.packages import PACKAGING, documented_metrics, program
from tools.packages import board

DEADLINE_SECONDS = 120
CONFIG = """\
directory = "state"
[admin]
port = 0
[listen.bmq]
port = 0
[domains.orders]
mode = "priority"
"""
MAY_BE_EMPTY = {
    "headgate_requests_refused_total",
    "headgate_sessions_closed_total",
    "headgate_handshakes_failed_total",
    "headgate_authentications_failed_total",
    "headgate_limits_reached_total",
}
"""Of these there is nothing to see before one of them has happened."""


def test_the_board_is_what_its_table_says() -> None:
    assert board.FILE.read_text() == board.text(), "python -m tools.packages.board writes it anew"


def test_it_asks_for_metrics_of_the_router() -> None:
    named = {name for query in board.queries() for name in board.metrics(query)}
    assert len(named) > 15
    assert named - documented_metrics() == set()


def test_its_panels_lie_side_by_side() -> None:
    places: set[tuple[int, int]] = set()
    panels: Any = board.board()["panels"]
    for panel in panels:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in places
                places.add((x, y))
    assert max(x for x, _ in places) == board.COLUMNS - 1


def until(condition: Callable[[], Any]) -> Any:  # noqa: ANN401
    end = time.monotonic() + DEADLINE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@contextmanager
def running(command: list[str | Path], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=log.parent, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)


@contextmanager
def watched_router(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """A Prometheus that has the rules and watches a router: its port, and the ready file."""
    (folder / "headgate.toml").write_text(CONFIG)
    headgate = Path(sys.executable).with_name("headgate")
    ready = folder / "ready.json"
    with running([headgate, "serve", "--ready-file", ready], folder / "router.log"):
        until(ready.exists)
        addresses = json.loads(ready.read_text())
        admin = addresses["admin"]
        scrape = {
            "job_name": "headgate",
            "scrape_interval": "1s",
            "authorization": {"credentials_file": admin["token_file"]},
            "static_configs": [{"targets": [f"127.0.0.1:{admin['port']}"]}],
        }
        rules = str(PACKAGING / "prometheus" / "rules.yaml")
        settings = {
            "global": {"evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": [scrape],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        log = folder / "prometheus.log"
        command: list[str | Path] = [
            program("prometheus", "prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        with running(command, log):
            found = until(
                lambda: re.search(r'"Listening on".* address=127.0.0.1:(\d+)', log.read_text())
            )
            port = int(found[1])
            until(lambda: is_ready(port))
            yield port, addresses


def is_ready(port: int) -> bool:
    """Whether a Prometheus that listens also answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/-/ready")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def ask(port: int, path: str) -> Any:  # noqa: ANN401
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = json.loads(response.read())
        assert response.status == 200, body
        return body["data"]
    finally:
        connection.close()


def query(port: int, expression: str) -> list[Any]:
    found = ask(port, f"/api/v1/query?query={quote(expression)}")["result"]
    assert isinstance(found, list)
    return found


def evaluated(port: int) -> list[Any]:
    """The rules, once all have been."""
    groups = ask(port, "/api/v1/rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    return [] if any(rule["health"] == "unknown" for rule in rules) else rules


async def test_a_prometheus_that_watches_a_router_answers_every_query(tmp_path: Path) -> None:
    with watched_router(tmp_path) as (port, addresses):
        address = "tcp://127.0.0.1:{}".format(addresses["bmq"]["port"])
        async with await Client.connect(address) as client:
            orders = await client.open("bmq://orders/incoming", read=True, write=True)
            await orders.post(b"a parcel", {"kind": "express"})
            await (await anext(orders)).confirm()
        # Two scrapes make a rate.
        until(lambda: query(port, "count_over_time(up[1m]) >= 3 and up == 1"))
        empty = []
        for expression in board.queries():
            shown = expression.replace("$instance", ".*").replace("$__rate_interval", "1m")
            if not query(port, shown):
                empty += sorted(board.metrics(expression))
        assert set(empty) <= MAY_BE_EMPTY
        found = until(lambda: evaluated(port))
        assert len(found) > 12
        assert {rule["health"] for rule in found} == {"ok"}
