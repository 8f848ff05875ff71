"""What is said to somebody who named what is not there, and why expressions have no value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.cli.live.domain import domain_fields
from headgate.cli.live.known import app_problem, domain_problem
from headgate.cli.live.queue import exclusive_fields, shared_fields
from headgate.cli.live.reasons import why_never_decided, why_undecided
from tests.support.cli_router import CliRouter, cli_router


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliRouter]:
    with cli_router(tmp_path_factory.mktemp("router")) as router:
        yield router


@contextmanager
def reading(router: CliRouter, *arguments: str) -> Iterator[list[str]]:
    """Somebody reads with ``headgate sub``; the lines on standard error, once it has subscribed."""
    environ = {name: text for name, text in router.environ.items() if text is not None}
    process = subprocess.Popen(
        [sys.executable, "-c", "from headgate.cli import main; main()", "sub", *arguments],
        env={k: v for k, v in os.environ.items() if k != "HEADGATE_TOKEN"} | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines: list[str] = []
    try:
        while not lines or not lines[-1].startswith("subscribed to "):
            lines.append(process.stderr.readline())
            assert lines[-1], process.stderr.read()
        yield lines
    finally:
        process.terminate()
        lines += (process.communicate(timeout=60)[1] or "").splitlines()


UNKNOWN = "there is no domain wrok with shared queues (did you mean work?); known are fan, work"


@pytest.mark.parametrize(
    "arguments",
    [
        ("domain", "show", "wrok"),
        ("queue", "show", "wrok/x"),
        ("queue", "ls", "wrok"),
        ("queue", "peek", "wrok/x"),
        ("queue", "purge", "wrok/x", "--yes"),
        ("domain", "aside", "wrok/x"),
        ("expr", "impact", "n > 1", "--queue", "wrok/x"),
        ("sub", "bmq://wrok/x"),
        ("pub", "bmq://wrok/x", "body"),
    ],
)
def test_whoever_misspells_a_domain_is_told_which_there_are(
    router: CliRouter, arguments: tuple[str, ...]
) -> None:
    done = router.run(*arguments)
    assert done.exit_code == 1
    assert done.stderr == f"headgate: {UNKNOWN}\n"


def test_whoever_misspells_an_app_is_told_which_there_are(router: CliRouter) -> None:
    assert router.run("pub", "bmq://fan/x", "body").exit_code == 0
    known = "known are billing, shipping\n"
    aside = router.run("domain", "aside", "fan/x", "--app", "biling")
    assert aside.stderr == f"headgate: the domain fan has no app biling; {known}"
    again = router.run("queue", "look-again", "fan/x")
    assert again.stderr == f"headgate: the domain fan is read by its apps; {known}"
    without = router.run("sub", "bmq://fan/x")
    assert without.stderr.endswith(": bmq://fan/x?id=billing, bmq://fan/x?id=shipping\n")
    with reading(router, "bmq://fan/x?id=biling") as lines:
        pass
    assert lines[0] == "warning: the domain fan has no app biling; known are billing, shipping." + (
        " Nothing will come\n"
    )


def test_the_texts_about_domains_and_apps() -> None:
    many: dict[str, list[str]] = {f"d{n}": [] for n in range(20)}
    assert str(domain_problem("x", many)).endswith("d8, d9 and 10 more")
    assert str(domain_problem("x", {})).endswith("known are none")
    assert domain_problem("d1", many) is None
    assert app_problem("d1", "a", many) == "the domain d1 has no apps; leave a out"
    assert app_problem("d1", "", many) is None


def test_a_session_is_shown_by_its_name_too(router: CliRouter) -> None:
    assert "\nname           listener\n" in router.run("session", "show", "listener").stdout
    missing = router.run("session", "show", "nobody")
    assert missing.exit_code == 1
    assert missing.stderr.startswith("headgate: no session is called nobody; headgate session ls")
    gone = router.run("session", "show", "99999")
    assert gone.stderr.endswith("it may have ended; headgate session ls lists those there are\n")


def test_what_acts_on_a_session_wants_its_number(router: CliRouter) -> None:
    for verb in ("close", "trim"):
        done = router.run("session", verb, "listener", "--yes")
        assert done.exit_code == 1
        assert "say the number of the session; called listener: " in done.stderr


def test_those_in_trouble_are_shown_with_where_they_are(router: CliRouter) -> None:
    assert "  PEER" in router.run("session", "ls", "--slow").stdout
    assert "  PEER" not in router.run("session", "ls").stdout


def test_why_an_expression_has_no_value_is_told_by_name(router: CliRouter) -> None:
    with reading(router, "bmq://work/jobs", "--where", "amount > 5"):
        queue = router.run("queue", "show", "work/jobs").stdout
        assert "1 consumer: 2 aside, the oldest for " in queue
        assert "\n  PRIORITY  EXPRESSION  MATCHED  NOT  IN FLIGHT   UNDECIDED\n" in queue
        aside = router.run("domain", "aside", "work/jobs").stdout
        assert "  amount > 5: 2 without a property: the message lacks amount\n" in aside
        domain = router.run("domain", "show", "work").stdout
        assert "  amount > 5: 2 without a property: the message lacks amount\n" in domain
        assert "jobs          2  49 B            2          1          0\n" in domain


def test_an_expression_without_a_value_for_what_came_is_warned_of(router: CliRouter) -> None:
    """By the property that it lacks; not if it has a value for one of the messages."""
    with reading(router, "bmq://work/jobs", "--where", "amount > 5") as lines:
        pass
    told = "warning: amount > 5 has no value for the last 2 messages that came: the message lacks"
    assert lines[0] == f"{told} amount\n"
    with reading(router, "bmq://work/jobs", "--where", 'kind == "none" || n > 5') as lines:
        pass
    assert lines[0].startswith("subscribed to ")


def test_sizes_are_for_people_and_exact_for_programs(router: CliRouter) -> None:
    shown = router.run("domain", "show", "work").stdout
    assert " of 1,000,000, " in shown
    assert " B of 1.0 GiB\n" in shown
    row = json.loads(router.run("domain", "show", "work", "--json").stdout)["row"]
    assert row["domain_max_bytes"] == 1024**3


def test_a_domain_of_exclusive_queues_says_that_they_are_not_counted() -> None:
    row: dict[str, object] = {
        "domain": "smp",
        "mode": "exclusive",
        "apps": [],
        "queues": None,
        "opened": None,
    }
    row |= {"messages": None, "bytes": None, "capacity": None, "max_messages": 128}
    row |= {"max_bytes": None, "streams": [], "groups": "", "feeds": [], "speaks": ""}
    shown = domain_fields(row)
    assert {name: text for name, text in shown.items() if text is not None} == {
        "domain": "smp",
        "mode": "exclusive",
        "queues": "exclusive, and not counted; headgate queue show ID looks one up",
        "per queue": "at most 128 messages",
    }


def test_a_queue_of_one_recipient_is_shown_for_people() -> None:
    found = {
        "queue": "abcd",
        "kind": "exclusive",
        "domain": "smp",
        "service": None,
        "subscriber": {"session": 3, "name": "phone"},
        "backlog_messages": 1,
        "backlog_bytes": 16_384,
        "oldest_at": 0.0,
        "unconfirmed": 1,
        "notifier": False,
        "in_memory": True,
    }
    shown = exclusive_fields(found)
    assert shown["subscriber"] == "3 phone"
    assert shown["holds"] == "1 message, 16.0 KiB"
    assert str(shown["oldest"]).endswith(" d, since 1970-01-01 00:00:00")
    unknown = dict.fromkeys(("subscriber", "backlog_bytes", "oldest_at"))
    shown = exclusive_fields(found | unknown)
    assert (shown["subscriber"], shown["holds"], shown["oldest"]) == ("nobody", "1 message", None)


def test_a_queue_that_nobody_made_is_said_to_be_missing(router: CliRouter) -> None:
    done = router.run("queue", "show", "work/none")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("headgate: work has no queue none; a queue is made when a client")
    assert done.stderr.endswith("; headgate domain ls lists what there is\n")


def test_a_queue_that_nobody_opened_holds_what_the_store_says() -> None:
    found: dict[str, Any] = {
        "queue": "bmq://work/old", "mode": "priority", "capacity": "normal", "producers": 0,
        "opened": False, "messages": 1, "max_messages": 10, "bytes": 2048, "max_bytes": 4096,
    }  # fmt: skip
    shown = shared_fields(found)
    assert shown["holds"] == "1 message of 10, 2.0 KiB of 4.0 KiB"
    assert shown["state"] == "nobody has opened it since the router started"
    busy = shared_fields(found | {"messages": None, "bytes": None})
    assert busy["holds"] == "unknown: the store has no time"
    assert shared_fields(found | {"opened": True})["state"] is None


def test_the_commonest_reason_comes_first() -> None:
    messages = [{"properties": each} for each in ({"b": 1}, {}, {}, {"a": {"hex": "00"}}, {"a": 6})]
    assert why_undecided("a > 5", messages) == (
        "the message lacks a; a value is of a type that does not fit"
    )
    assert why_never_decided("a > 5", messages) == ""
    assert why_never_decided("a > 5", messages[:3]) == "the message lacks a"
    assert why_never_decided("a > 5", []) == ""
    assert why_undecided(None, messages) == ""
    assert why_undecided("a >", messages) == ""


def test_an_expression_that_looks_wrong_is_warned_of(router: CliRouter) -> None:
    with reading(router, "bmq://work/jobs", "--where", "kind == express") as lines:
        pass
    assert lines[0].startswith("warning: kind and express are both property names; quotes make")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """A folder without a configuration, and no contexts yet."""
    monkeypatch.chdir(tmp_path)
    return {"HEADGATE_URL": None, "HEADGATE_CONFIG": None, "XDG_CONFIG_HOME": str(tmp_path)}


def test_login_takes_the_address_of_the_configuration(
    router: CliRouter, here: dict[str, str | None]
) -> None:
    port = router.url.rpartition(":")[2]
    Path("headgate.toml").write_text(f"[admin]\nport = {port}\n")
    done = router.run("login", answer="look here\n", **here)
    assert (done.exit_code, done.stdout) == (0, f"default: {router.url}\n")
    Path("headgate.toml").write_text("[admin]\nport = 9\n")
    other = router.run("login", answer="look here\n", **here)
    assert other.exit_code == 1
    assert "headgate login default or headgate login NAME --url http://127.0.0.1:9" in other.stderr


def test_login_to_a_context_that_is_not_there(
    router: CliRouter, here: dict[str, str | None]
) -> None:
    done = router.run("login", "prod", answer="look here\n", **here)
    assert done.exit_code == 1
    assert "there is no context prod; known are: none" in done.stderr
    made = router.run("login", "prod", "--url", router.url, answer="look here\n", **here)
    assert (made.exit_code, made.stdout) == (0, f"prod: {router.url}\n")
    assert router.run("login", "prod", answer="\n", **here).exit_code == 2


def row(swept: int, ended: float | None) -> dict[str, object]:
    return {
        "service": "abcd",
        "swept": swept,
        "sweep_total": 100,
        "sweep_started": 10.0,
        "sweep_ended": ended,
    }


def test_a_sweep_is_followed_until_it_is_done(
    router: CliRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([row(10, None), row(10, None), row(60, None), row(100, 12.5)])
    monkeypatch.setattr("headgate.cli.live.service.paged", lambda *_: [next(looks)])
    monkeypatch.setattr("headgate.cli.live.service.POLL_SECONDS", 0.0)
    done = router.run("service", "sweep", "ab")
    assert done.stdout.splitlines() == (["abcd  10 of 100", "abcd  60 of 100", "abcd  done, 2.5 s"])
