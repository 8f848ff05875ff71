"""The API of a router that runs. Every answer is compared with docs/reference/openapi.json."""

from __future__ import annotations

import time

import pytest

from headgate.server.desk.series import NAMES
from tests.server.desk.conftest import Busy
from tests.support.desk_api import DOCUMENT, Api
from tests.support.json_schema import faults


def test_the_stream_has_a_tick_a_second(busy: Busy) -> None:
    with busy.look.stream("live") as events:
        first, second = events.next("tick"), events.next("tick")
    assert second["at"] > first["at"]
    assert set(first["point"]) == set(NAMES)
    assert first["point"]["sessions"] >= 1
    assert first["store"] == "sqlite"
    assert first["stage"] == ""
    assert first["viewers"] == 1
    assert faults(second, {"$ref": "#/components/schemas/Tick"}, DOCUMENT) == []


def test_a_stream_that_is_cut_makes_room(busy: Busy) -> None:
    """Sixty come and go, of whom 32 may look at once."""
    with busy.look.stream("live") as events:
        for _ in range(2):
            streams = [busy.look.stream("live") for _ in range(30)]
            for each in streams:
                each.__enter__()
            for each in streams:
                each.__exit__(None, None, None)
            end = time.monotonic() + 60
            while events.next("tick")["viewers"] > 1:
                assert time.monotonic() < end


def test_facts_come_with_the_stream_if_they_are_asked_for(busy: Busy) -> None:
    with busy.look.stream("live?facts=true") as events:
        events.next("tick")
        busy.redis("CLIENT SETNAME seen").close()
        found = events.next("fact")
    assert found["kind"] in ("SessionOpened", "SessionClosed", "AdminActed")


def test_series_are_columns(busy: Busy) -> None:
    found = busy.look.get("series?names=sessions,published&span=60")
    assert set(found) == {"at", "sessions", "published"}
    assert len({len(column) for column in found.values()}) == 1
    assert set(busy.look.get("series")) == {"at", *NAMES}
    assert busy.look.get("series?names=nope", 400)["code"] == "bad_parameter"
    assert busy.look.get("series?span=86401", 400)["code"] == "bad_parameter"


def test_sessions_are_found_by_name_wire_and_order(busy: Busy) -> None:
    with busy.redis("CLIENT SETNAME report-builder", "SUBSCRIBE ticks.a ticks.b"):
        found = busy.look.get("sessions?q=report&wire=resp&sort=newest&limit=5")
        assert found["total"] == 1
        [row] = found["rows"]
        assert row["name"] == "report-builder"
        assert row["peer"].startswith("127.0.0.1:")
        assert row["subscriptions"] == 2
        assert row["in_per_s"] > 0
        assert found["wires"]["resp"] >= 1
        one = busy.look.get(f"sessions/{row['session']}")
        assert one["channels"] == ["ticks.a", "ticks.b"]
        assert busy.look.get("sessions?limit=1&offset=1")["total"] >= 2
    end = time.monotonic() + 30
    while busy.look.get("sessions?q=report")["total"]:
        assert time.monotonic() < end
    assert "report-builder" in busy.look.get("sessions")["closed"][0]["name"]
    assert busy.look.get("sessions/999999", 404)["code"] == "no_such_session"


def test_what_a_peer_chose_is_text(busy: Busy) -> None:
    name = "<img/src=x/onerror=alert(1)>" + "x" * 300
    with busy.redis(f"CLIENT SETNAME {name}"):
        [row] = busy.look.get("sessions?q=onerror")["rows"]
    assert row["name"] == name[:200] + "…"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("sessions?nope=1", "unknown_parameter"),
        ("sessions?limit=0", "bad_parameter"),
        ("sessions?limit=101", "bad_parameter"),
        ("sessions?limit=x", "bad_parameter"),
        ("sessions?offset=10001", "too_far"),
        ("sessions?sort=nope", "bad_parameter"),
        ("sessions?limit=1&limit=2", "bad_parameter"),
        (f"sessions?q={'x' * 201}", "bad_parameter"),
        ("facts?level=nope", "bad_parameter"),
        ("live?x=1", "unknown_parameter"),
    ],
)
def test_a_wrong_parameter_is_refused(busy: Busy, path: str, code: str) -> None:
    refused = busy.look.get(path, 400)
    assert refused["code"] == code
    assert refused["hint"]


def test_domains_and_their_queues(busy: Busy) -> None:
    found = busy.look.get("domains")
    assert [row["domain"] for row in found["rows"]] == ["orders", "smp"]
    assert found["rows"][0]["apps"] == ["shipping", "billing"]
    assert found["rows"][0]["streams"] == ["orders.*"]
    behind = {row["app"]: row for row in found["apps"]}
    assert behind["billing"]["in_line"] == 6
    assert behind["billing"]["consumers"] == 0
    assert (behind["shipping"]["aside"], behind["shipping"]["in_line"]) == (2, 2)
    one = busy.look.get("domains/orders")
    assert [(row["name"], row["messages"]) for row in one["rows"]] == [("incoming", 6)]
    queue = busy.look.get("domains/orders/queues/incoming")
    [shipping] = [app for app in queue["apps"] if app["app"] == "shipping"]
    assert (shipping["aside"], shipping["unconfirmed"], shipping["in_line"]) == (2, 2, 2)
    [group] = shipping["groups"]
    assert (group["expression"], group["priority"]) == ('kind == "express"', 8)
    assert group["window"] == 2
    assert not busy.look.get("domains/orders/queues/other")["opened"]
    assert busy.look.get("domains/nope", 404)["code"] == "no_such_domain"
    assert busy.look.get("domains/smp/queues/x", 404)["code"] == "no_such_queue"
    assert busy.look.get("domains/orders/queues/a b".replace(" ", "%20"), 400)["code"] == "bad_name"


def test_an_expression_is_tried_on_what_came(busy: Busy) -> None:
    found = busy.look.post(
        "expression",
        {
            "expression": 'amount >= 1 && kind == "express"',
            "properties": {"kind": "express"},
            "queue": "bmq://orders/incoming",
            "app": "shipping",
            "priority": 9,
        },
    )
    assert found["ok"]
    assert (found["result"], found["reason"]) == ("NAME", "NAME: the message lacks amount")
    assert found["tree"]["value"] == "NAME"
    assert found["recent"] == 6
    assert found["tried"] == {"true": 3, "false": 3, "name": 0, "type": 0, "arithmetic": 0}
    assert found["impact"] == [
        {"count": 3, "expression": 'kind == "express"', "priority": 8, "shares": False}
    ]
    assert len(found["samples"]) == 3
    wrong = busy.look.post("expression", {"expression": "amount = 1"})
    assert (wrong["ok"], wrong["code"], wrong["offset"]) == (False, "SYNTAX", 7)
    assert wrong["hint"] == "use == to compare"
    assert busy.look.post("expression", {"nope": 1}, 400)["code"] == "bad_body"


def test_two_sets_of_subscriptions_are_compared(busy: Busy) -> None:
    before = [{"app": "shipping", "expression": 'kind == "express"', "priority": 8}]
    after = [*before, {"app": "shipping", "expression": "amount >= 4", "priority": 9}]
    found = busy.look.post(
        "expressions/compare", {"domain": "orders", "before": before, "after": after}
    )
    assert (found["recent"], found["unchanged"], found["newly_matched"]) == (6, 4, 1)
    assert {(m["before"], m["after"], m["count"]) for m in found["moved"]} == {
        ('kind == "express"', "amount >= 4", 1),
        (None, "amount >= 4", 1),
    }
    gone = busy.look.post(
        "expressions/compare", {"domain": "orders", "before": before, "after": []}
    )
    assert gone["orphaned"] == 3
    bad = {"domain": "orders", "before": [{"expression": "="}], "after": []}
    assert busy.look.post("expressions/compare", bad, 400)["code"] == "bad_expression"


def test_a_message_is_explained(busy: Busy) -> None:
    asked = {"queue": "bmq://orders/incoming", "properties": {"kind": "slow"}}
    found = busy.look.post("explain", asked)
    outcomes = {app["app"]: app["outcome"] for app in found["apps"]}
    assert outcomes == {"shipping": "in line", "billing": "in line"}
    assert busy.look.post("explain", {"queue": "nope"}, 400)["code"] == "bad_question"


def test_recent_messages_have_properties_and_no_bodies(busy: Busy) -> None:
    rows = busy.look.get("recent?queue=bmq://orders/incoming")["rows"]
    assert [row["properties"]["amount"] for row in rows] == [5, 4, 3, 2, 1, 0]
    aside = busy.look.get("recent?queue=bmq://orders/incoming&aside=shipping")["rows"]
    assert [row["properties"]["amount"] for row in aside] == [2, 0], "what it holds, newest first"
    assert busy.look.get("recent?queue=bmq://orders/none&aside=x", 404)["code"] == "no_such_app"


def test_what_was_put_aside_is_shown_with_the_reason(busy: Busy) -> None:
    found = busy.look.get("domains/orders/queues/incoming/aside?app=shipping&limit=2")
    assert found["total"] == 2
    assert [row["properties"]["amount"] for row in found["rows"]] == [0, 2]
    [why] = found["why"]
    assert (why["expression"], why["false"], why["reason"]) == ('kind == "express"', 2, "")


def test_channels_and_patterns_are_counted(busy: Busy) -> None:
    with busy.redis("PSUBSCRIBE news.*") as heard, busy.redis() as sender:
        end = time.monotonic() + 30
        while True:
            sender.sendall(b"PUBLISH news.today hello\r\n")
            assert sender.recv(100) == b":1\r\n"
            found = busy.look.get("channels?q=news")
            if found["rows"]:
                break
            assert time.monotonic() < end
            time.sleep(0.1)
        [row] = found["rows"]
        assert (row["channel"], row["kind"], row["receivers"]) == ("news.today", "exact", 1)
        assert row["patterns_hearing"] == ["news.*"]
        [pattern] = busy.look.get("patterns?sort=matched")["rows"]
        assert (pattern["pattern"], pattern["sessions"]) == ("news.*", 1)
        assert pattern["matched_per_s"] > 0
        assert heard.recv(100)


def test_a_tail_shows_some_and_counts_the_rest(busy: Busy) -> None:
    with (
        busy.look.stream("tail?pattern=noise.*&bodies=true") as events,
        busy.redis() as sender,
    ):
        events.next("skipped")
        sender.sendall(b"PUBLISH noise.a hello\r\nPUBLISH other b\r\n" * 500)
        first = events.next("message")
        assert (first["channel"], first["body"], first["size"]) == ("noise.a", "hello", 5)
        counts = [events.next("skipped")["count"] for _ in range(3)]
        assert sum(counts) >= 10
    assert busy.look.get("tail?where==", 400)["code"] == "bad_expression"


def test_a_queue_is_found_by_its_name(busy: Busy) -> None:
    found = busy.look.get("queues/bmq://orders/incoming")
    assert (found["kind"], found["backlog_messages"], found["in_memory"]) == ("shared", 6, True)
    assert busy.look.get("queues/bmq://orders/nope", 404)["code"] == "no_such_queue"
    assert busy.look.get(f"queues/{'00' * 24}", 404)["code"] == "no_such_queue"
    assert busy.look.get("queues/nope", 400)["code"] == "bad_name"


def test_a_shared_queue_is_found_without_its_scheme_and_told_by_what_it_has(busy: Busy) -> None:
    found = busy.look.get("queues/orders/incoming")
    assert found["queue"] == "bmq://orders/incoming"
    assert (found["consumers"], found["producers"], found["undelivered"]) == (1, 1, 10)
    assert {"shipping", "billing"} <= set(found["apps"])
    assert found["notifier"] is None
    missing = busy.look.get("queues/orders/nope", 404)
    assert missing["error"] == "orders has no queue nope"
    assert "when a client opens it" in missing["hint"]
    strange = busy.look.get("queues/elsewhere/incoming", 404)
    assert (strange["code"], strange["hint"]) == ("no_such_domain", "those that have: orders")


def test_five_expressions_a_second_are_tried_for_a_viewer(busy: Busy) -> None:
    asked = {"expression": "amount > 1"}
    answers = [busy.look.ask("POST", "/api/v1/expression", asked) for _ in range(40)]
    refused = [each for each in answers if each.status != 200]
    assert refused, "40 in less than eight seconds"
    for each in refused:
        assert (each.status, each.headers["retry-after"]) == (429, "1")
        assert each.json["code"] == "too_many"
        assert each.json["hint"] == "ask again in a second"


def test_who_reads_an_app_that_is_not_there_is_told_of(busy: Busy) -> None:
    assert busy.client is not None
    reader = busy.run(busy.client.open("bmq://orders/incoming?id=nope", read=True))
    try:
        why = "orders has no app nope, so nothing comes; its apps are shipping, billing"
        queue = busy.look.get("domains/orders/queues/incoming")
        [app] = [each for each in queue["apps"] if each["app"] == "nope"]
        assert (app["is_known"], app["reason"]) == (False, why)
        [fact] = busy.look.get("facts?kind=AppUnknown")["rows"]
        assert (fact["fields"]["app"], fact["fields"]["known"]) == ("nope", "shipping, billing")
        end = time.monotonic() + 60
        while True:
            rows = busy.look.get("attention")["rows"]
            if found := [row for row in rows if row["kind"] == "unknown"]:
                break
            assert time.monotonic() < end
            time.sleep(0.2)
        assert found[0]["title"] == "shop reads an app that is not there"
        assert why in found[0]["text"]
        asked = {"queue": "bmq://orders/incoming", "properties": {}}
        [explained] = [
            each for each in busy.look.post("explain", asked)["apps"] if each["app"] == "nope"
        ]
        assert explained["reason"] == why
    finally:
        busy.run(reader.close())  # type: ignore[attr-defined]


def test_kinds_that_are_not_kept_are_named(busy: Busy) -> None:
    found = busy.look.get("facts")
    assert {"Accepted", "Delivered", "Confirmed"} <= set(found["left_out"])
    assert not {row["kind"] for row in found["rows"]} & set(found["left_out"])
    assert found["skipped"] == sum(found["skipped_kinds"].values())


def test_the_rest_is_as_described(busy: Busy) -> None:
    assert busy.look.get("attention")["rows"] is not None
    assert busy.look.get("services")["total"] == 0
    assert busy.look.get("journal")["enabled"]
    assert busy.look.get("facts?level=warning")["last"] >= 0
    me = busy.look.get("me")
    assert (me["operator"], me["actions"], me["bodies"]) == (False, True, True)
    assert busy.operator.get("me")["operator"]


def test_commands_are_told_how_to_reach_the_router(busy: Busy) -> None:
    """The system chose the ports here, so the file alone does not do."""
    file = f"--config {busy.folder}/headgate.toml --url"
    assert busy.look.get("me")["options"] == {
        "admin": f"{file} http://127.0.0.1:{busy.served.port}",
        "channels": f"{file} 127.0.0.1:{busy.port('resp')}",
        "queues": f"{file} tcp://127.0.0.1:{busy.port('bmq')}",
        "files": f"--config {busy.folder}/headgate.toml",
    }


def test_what_is_not_counted_is_null(busy: Busy) -> None:
    """Queues of SimpleX clients may be millions."""
    row = busy.look.get("domains/smp")["row"]
    assert row["mode"] == "exclusive"
    counted = ("queues", "opened", "messages", "bytes", "capacity")
    assert [row[name] for name in counted] == [None] * 5
    row = busy.look.get("domains/orders")["row"]
    assert None not in [row[name] for name in counted]


def test_the_pipeline_is_asked_how_it_is_doing(busy: Busy) -> None:
    found = busy.look.get("pipeline")
    assert (found["known"], found["facts_in_tables"]) == (True, 0)
    assert found["facts_in_journal"] >= 0
    assert found["tables"].endswith("state/tables")
    assert busy.look.get("pipeline")["at"] == found["at"], "asked again only after a while"


def test_settings_hide_secrets_and_show_what_was_changed_first(busy: Busy) -> None:
    found = busy.look.get("settings")
    rows = {row["key"]: row for row in found["rows"]}
    assert rows["admin.operator_token"]["value"] == '"(hidden)"'
    assert "what operators know" not in str(found)
    assert rows["domains.orders.max_messages"]["reloadable"]
    assert not rows["domains.orders.mode"]["reloadable"]
    assert rows["domains.orders.mode"]["meaning"]
    changed = [row["changed"] for row in found["rows"]]
    assert changed == sorted(changed, reverse=True)
    assert all(row["meaning"] for row in found["rows"])


def test_nobody_without_a_token_is_answered(busy: Busy) -> None:
    stranger = Api(busy.served.port, None)
    for path in ("live", "sessions", "settings", "tail", "nope"):
        assert stranger.ask("GET", f"/api/v1/{path}").status == 401
    for path in ("expression", "drain", "sessions/1/close"):
        assert stranger.ask("POST", f"/api/v1/{path}", {}).status == 401
