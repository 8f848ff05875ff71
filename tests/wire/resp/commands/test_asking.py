"""Check 75 of docs/design/streams.md: HG.EXPLAIN says what `headgate explain` says, and HG.EXPR
what an expression makes of fields."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from headgate.cli.explain import lines
from headgate.core.model.domain import Domain
from headgate.core.model.ids import QueueId
from headgate.core.shared.explain import explain
from headgate.core.shared.statistics import groups_of
from headgate.core.turn.slices import at_once
from tests.support.resp_hub import Guest, House


@pytest.fixture
def house() -> House:
    return House(domains=[Domain.fanout("jobs", "g", "h", streams=("s*",))])


@pytest.fixture
def guest(house: House) -> Guest:
    return house.guest()


def test_an_explanation_is_the_same_by_both_ways(house: House, guest: Guest) -> None:
    guest.raw(*["XREADGROUP", "GROUP", "g", "w?where=n>5", "BLOCK", "0", "STREAMS", "s", ">"])
    asking = house.guest()
    found = asking.ask("HG.EXPLAIN", "s", "n", "7", "data", "x")
    shared = house.rig.shard.shared
    row = explain(
        house.rig.shard.domains["jobs"],
        shared.queues[QueueId(b"bmq://jobs/s")],
        {"n": 7},
        house.rig.broker.sessions,
        shared.pulling.readers,
    )
    whole = {**asdict(at_once(row)), "queue": "bmq://jobs/s", "properties": {"n": 7}}
    assert found == "\n".join(lines(whole)) + "\n"
    assert "goes to consumer w;" in found
    assert "    consumer w  open  0 unconfirmed  gets it" in found, "it has no window"
    assert "goes to" not in asking.ask("HG.EXPLAIN", "s", "n", "3")


def test_a_named_consumer_has_no_window(house: House, guest: Guest) -> None:
    guest.raw("XREADGROUP", "GROUP", "g", "w", "BLOCK", "0", "STREAMS", "s", ">")
    app = house.rig.shard.shared.queues[QueueId(b"bmq://jobs/s")].apps["g"]
    [row] = at_once(groups_of(app))
    assert (row["in_flight"], row["window"]) == (0, None)


def test_an_explanation_of_what_nobody_opened(guest: Guest) -> None:
    assert "Nobody has opened the queue" in guest.ask("HG.EXPLAIN", "s")
    assert guest.ask("HG.EXPLAIN", "x").startswith("ERR no domain takes the stream 'x'")
    assert guest.ask("HG.EXPLAIN", "s", "n").startswith("ERR wrong number of arguments")


def test_no_orders_to_a_terminal(guest: Guest) -> None:
    assert "\x1b" not in guest.ask("HG.EXPLAIN", "s", "n", "\x1b[2J", "m", "1")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("n > 5",), "OK"),
        (("n > 5", "n", "7"), "match"),
        (("n > 5", "n", "3"), "no match"),
        (("n > 5", "m", "3", "k", "1"), "no value: name"),
        (("n > 5", "n", "x", "k", "1"), "no value: type"),
        (("n / 0 > 5", "n", "7"), "no value: arithmetic"),
        (("n > 5", "n"), "ERR wrong number of arguments for 'hg.expr' command"),
    ],
)
def test_expressions(guest: Guest, words: tuple[str, ...], answer: str) -> None:
    # One field alone is a body, which no expression sees.
    more = ("data", "x") if len(words) == 3 else ()
    assert guest.ask("HG.EXPR", *words, *more) == answer


def test_a_wrong_expression(guest: Guest) -> None:
    assert guest.ask("HG.EXPR", "n >").startswith("ERR bad expression at ")
    assert guest.ask("HG.OTHER", "n").startswith("ERR unknown command")


def test_explaining_is_for_admins(guest: Guest) -> None:
    guest.ask("ACL", "SETUSER", "default", "-@admin")
    assert guest.ask("HG.EXPLAIN", "s").startswith("NOPERM")
    assert guest.ask("HG.EXPR", "n > 5") == "OK"
