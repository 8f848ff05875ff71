"""What operators have a router do: confirmed by name, and a fact before it is done."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from headgate.journal.reader import facts
from headgate.server.admin import guard
from headgate.server.admin.responses import Refusal
from headgate.server.config import Config
from headgate.server.desk import actions
from headgate.server.desk.actions import Actions
from headgate.server.desk.asking import ActionQuestion
from tests.server.desk.conftest import CONFIG, OPERATOR, Busy
from tests.server.test_serve import Served
from tests.support.desk_api import Api


@pytest.fixture
def acted(tmp_path: Path) -> Iterator[Busy]:
    router = Busy(tmp_path)
    try:
        router.run(router.open_orders())
        yield router
    finally:
        router.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def acts(busy: Busy) -> list[tuple[str, str]]:
    rows = busy.look.get("facts?kind=AdminActed")["rows"]
    return [(row["fields"]["action"], row["fields"]["outcome"]) for row in reversed(rows)]


def test_only_an_operator_may_act(busy: Busy) -> None:
    for path in ("drain", "reload", "sessions/1/close", "queues/purge"):
        asked = {"confirm": "x", "queue": "bmq://orders/incoming"}
        assert busy.look.post(path, asked, 403)["code"] == "not_operator"
    assert busy.operator.post("drain", {"confirm": "no"}, 409)["code"] == "not_confirmed"
    assert busy.look.ask("GET", "/readyz").status == 200
    assert busy.operator.post("drain", {"wrong": 1}, 400)["code"] == "bad_body"


def test_without_an_operators_token_there_are_no_actions(tmp_path: Path) -> None:
    plain = CONFIG.replace(f'operator_token = "{OPERATOR}"\n', "")
    (tmp_path / "headgate.toml").write_text(plain)
    served = Served(tmp_path).started()
    try:
        api = Api(served.port, served.token)
        assert api.ask("POST", "/api/v1/drain", {"confirm": "drain"}).status in (404, 405)
        assert not api.get("me")["actions"]
    finally:
        served.process.kill()
        served.process.wait()


def test_an_audit_is_confirmed_by_its_name_and_a_fact_before_it_begins(busy: Busy) -> None:
    assert busy.look.get("audit")["state"] == "never"
    assert busy.look.post("audit", {"confirm": "audit"}, 403)["code"] == "not_operator"
    assert busy.operator.post("audit", {"confirm": "all"}, 409)["code"] == "not_confirmed"
    assert busy.operator.post("audit", {"dry_run": True})["outcome"] == "would be done"
    assert busy.look.get("audit")["state"] == "never"
    done = busy.operator.post("audit", {"confirm": "audit", "reason": "monthly"})
    assert (done["outcome"], done["count"]) == ("started", 0)
    audits = [outcome for action, outcome in acts(busy) if action == "audit"]
    assert audits[:2] == ["begun", "started"]
    assert busy.look.get("audit")["state"] in ("running", "done", "failed")


def test_a_session_is_closed_by_its_name(busy: Busy) -> None:
    with busy.redis("CLIENT SETNAME stuck") as client:
        [row] = busy.look.get("sessions?q=stuck")["rows"]
        path = f"sessions/{row['session']}/close"
        assert busy.operator.post(path, {"dry_run": True})["target"] == "stuck"
        assert busy.operator.post(path, {"confirm": "other"}, 409)["hint"] == "say confirm: stuck"
        done = busy.operator.post(path, {"confirm": "stuck", "reason": "it hangs"})
        assert (done["outcome"], done["count"]) == ("closed", 0)
        assert client.recv(100) == b""
    closed = busy.look.get("sessions")["closed"][0]
    assert closed["reason"] == "closed by an operator: it hangs"
    assert acts(busy)[-2:] == [("session/close", "begun"), ("session/close", "closed")]
    assert busy.operator.post(path, {"confirm": "stuck"}, 404)["code"] == "no_such_session"


def test_a_mailbox_is_trimmed(busy: Busy) -> None:
    with busy.redis("CLIENT SETNAME sleepy", "SUBSCRIBE flood") as client, busy.redis() as sender:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender.setblocking(False)
        line = b"PUBLISH flood " + b"x" * 8000 + b"\r\n"

        def is_full() -> bool:
            with suppress(BlockingIOError):
                sender.send(line * 4)
            [row] = busy.look.get("sessions?q=sleepy")["rows"]
            return bool(row["mailbox_bytes"] > 64 * 1024)

        until(is_full)
        [row] = busy.look.get("sessions?q=sleepy")["rows"]
        done = busy.operator.post(f"sessions/{row['session']}/trim", {"confirm": "sleepy"})
        assert done["count"] > 0


def test_a_queue_is_emptied_if_it_is_the_one_that_was_looked_at(acted: Busy) -> None:
    name = "bmq://orders/incoming"
    planned = acted.operator.post("queues/purge", {"queue": name, "dry_run": True})
    assert (planned["count"], planned["target"]) == (6, name)
    assert planned["oldest_at"] > 0
    stale = {"queue": name, "confirm": name, "count": 100}
    assert acted.operator.post("queues/purge", stale, 409)["code"] == "changed"
    done = acted.operator.post("queues/purge", {"queue": name, "confirm": name, "count": 6})
    assert done["count"] == 6
    assert acted.look.get("domains")["apps"] == []
    refused = acted.operator.post("queues/delete", {"queue": name, "confirm": name}, 409)
    assert "open" in refused["error"]
    forced = {"queue": name, "confirm": name, "forced": True}
    assert acted.operator.post("queues/delete", forced)["outcome"] == "removed"
    assert acted.look.get("domains/orders")["total"] == 0
    assert acted.operator.post("queues/purge", {"queue": "x", "confirm": "x"}, 400)["code"]
    # A fact before an effect: the journal has both, in that order.
    acted.served.stop(signal.SIGTERM)
    kinds = [
        (fact["kind"], fact.get("outcome"))
        for fact in facts(acted.folder / "state" / "journal")
        if fact["kind"] in ("AdminActed", "QueuePurged")
    ]
    assert kinds[:3] == [
        ("AdminActed", "begun"),
        ("QueuePurged", None),
        ("AdminActed", "messages removed"),
    ]


def test_what_was_put_aside_is_looked_at_again(acted: Busy) -> None:
    name = "bmq://orders/incoming"
    asked = {"queue": name, "app": "shipping", "confirm": name}
    assert acted.operator.post("apps/look-again", asked)["count"] == 2
    [shipping] = [a for a in acted.look.get("domains")["apps"] if a["app"] == "shipping"]
    assert shipping["aside"] + shipping["in_line"] == 4
    missing = {"queue": name, "app": "nope", "confirm": name}
    assert acted.operator.post("apps/look-again", missing, 404)["code"] == "no_such_app"


def test_a_drained_router_takes_nobody_until_it_is_undrained(acted: Busy) -> None:
    with acted.redis("PING"):
        done = acted.operator.post("drain", {"confirm": "drain", "reason": "an upgrade"})
        assert (done["outcome"], done["count"]) == ("draining", 2)
        assert acted.look.ask("GET", "/readyz").status == 503
        assert acted.look.ask("GET", "/healthz").status == 200
        with socket.create_connection(("127.0.0.1", acted.port("resp")), timeout=30) as refused:
            assert refused.recv(100) == b""
        with acted.look.stream("live") as events:
            assert events.next("tick")["stage"] == "draining"
        acted.operator.post("undrain", {"confirm": "undrain"})
        assert acted.look.ask("GET", "/readyz").status == 200
        acted.redis("PING").close()


def test_a_reload_says_what_it_changes(acted: Busy) -> None:
    path = acted.folder / "headgate.toml"
    path.write_text(
        CONFIG.replace('apps = ["shipping", "billing"]', 'apps = ["shipping", "billing", "new"]')
        + "\n[journal]\nsegment_size = '1 MiB'\n"
    )
    planned = acted.operator.post("reload", {"dry_run": True})
    assert planned["changed"] == ["domains.orders.apps", "journal.segment_size"]
    assert planned["after_restart"] == ["journal.segment_size"]
    assert acted.look.get("domains")["rows"][0]["apps"] == ["shipping", "billing"]
    done = acted.operator.post("reload", {"confirm": "reload"})
    assert done["after_restart"] == ["journal.segment_size"]
    until(lambda: "new" in acted.look.get("domains")["rows"][0]["apps"])
    path.write_text("nope = 1")
    assert "nope" in acted.operator.post("reload", {"confirm": "reload"}, 409)["error"]
    assert acted.operator.post("reload", {"dry_run": True}, 409)["code"] == "bad_configuration"


def test_another_log_level_is_written(acted: Busy) -> None:
    wanted = {"level": "debug", "minutes": 10, "confirm": "debug"}
    assert acted.operator.post("log-level", wanted)["outcome"] == "debug for 10 min"
    acted.redis("PING").close()
    until(lambda: "SessionOpened" in acted.served.log.read_text())
    for wrong in ({"level": "nope"}, {"level": "info", "minutes": 0}):
        assert acted.operator.post("log-level", {"confirm": "x", **wrong}, 400)["code"]


async def test_a_log_level_is_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("headgate.tests")
    monkeypatch.setattr(actions, "logger", logger)
    desk: Any = SimpleNamespace(latest=lambda: Config(directory=Path("state")))
    acting = Actions(desk, desk)
    acting.set_level("error", 60)
    acting.set_level("debug", 0)
    assert logger.level == logging.DEBUG
    async with asyncio.timeout(60):
        while logger.level == logging.DEBUG:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert logger.level == logging.INFO


async def test_more_actions_than_so_many_a_second_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actions, "ACTIONS_PER_SECOND", 0)
    nobody: Any = None
    request = Request({"type": "http", guard.OPERATOR: True})
    with pytest.raises(Refusal, match="actions a second") as refused:
        await Actions(nobody, nobody).asked(request, ActionQuestion)
    assert refused.value.status_code == 429


def test_streams_end_when_the_router_stops(acted: Busy) -> None:
    with acted.look.stream("live") as live, acted.look.stream("tail") as tail:
        live.next("tick")
        tail.next("skipped")
        assert acted.served.stop(signal.SIGTERM) == 0
        with pytest.raises(AssertionError, match="the stream was ended"):
            live.next("never")
