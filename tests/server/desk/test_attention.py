from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from headgate.core.model.sizes import in_bytes
from headgate.server.certificates import CertificateEnd
from headgate.server.desk.answers import AppRow, DomainRow, Point, SessionRow
from headgate.server.desk.attention import (
    Attention,
    Finding,
    Happened,
    Moment,
    UndecidedGroup,
    UnknownApp,
)
from headgate.server.desk.findings import findings
from headgate.server.desk.words import in_words, some, some_do

CALM = Moment(100.0, Point(), [], [], [], has_journal=True)
SLOW = SessionRow(
    session=7,
    wire="resp",
    name="report-builder",
    peer="127.0.0.1:1",
    agent="",
    user="",
    opened=0.0,
    mailbox_bytes=1 << 20,
    mailbox_hard=1 << 20,
    pressure="hard",
    slow_since=34.0,
    waits_for=None,
    held_up=2,
    subscriptions=1,
    queues=0,
    in_per_s=0.0,
    out_per_s=0.0,
    unconfirmed=0,
    oldest_unconfirmed=None,
    idle=0.0,
    worker=0,
)
APP = AppRow(
    queue="bmq://orders/incoming",
    domain="orders",
    name="incoming",
    app="billing",
    consumers=1,
    subscriptions=1,
    full=1,
    in_line=600,
    waiting=59,
    aside=0,
    unconfirmed=4,
    growth_per_s=6.4,
    stuck=False,
    oldest_at=1.0,
)
FULL = DomainRow(
    domain="orders",
    mode="priority",
    apps=[],
    queues=1,
    opened=1,
    messages=7,
    bytes=8,
    capacity="full",
    max_messages=None,
    max_bytes=None,
    domain_max_messages=7,
    domain_max_bytes=None,
    streams=[],
    groups="fixed",
    feeds=[],
    speaks="",
)
UNDECIDED = UndecidedGroup(
    "bmq://orders/q",
    "orders",
    "shipping",
    "kind == EXPRESS",
    1.0,
    "NAME: the message lacks EXPRESS",
)
UNKNOWN = UnknownApp(
    "bmq://orders/q",
    "nope",
    7,
    "packer",
    1,
    "orders has no app nope, so nothing comes; its apps are shipping, billing",
    3.0,
)
FINDING = Finding("warning", "kind", "key", "it is", "text", "/", "headgate top", "it was")
DAY = 86_400.0


def test_a_sentence_comes_after_five_seconds_and_stays_for_fifteen() -> None:
    attention = Attention()
    shown = [bool(attention.sentences([FINDING], at)) for at in (0.0, 4.9, 5.0, 6.0)]
    assert shown == [False, False, True, True]
    shown = [bool(attention.sentences([], at)) for at in (7.0, 21.0, 21.1)]
    assert shown == [True, True, False]


def test_what_is_over_is_told_as_what_was_and_after_all_that_holds() -> None:
    attention = Attention()
    worse = replace(FINDING, key="worse", level="error", since=-60.0)
    attention.sentences([FINDING, worse], 0.0)
    present = attention.sentences([FINDING, worse], 6.0)
    assert [(s.key, s.title, s.ended) for s in present] == [
        ("worse", "it is", None),
        ("key", "it is", None),
    ]
    held, over = attention.sentences([FINDING], 8.0)
    assert (held.key, held.title, held.text, held.ended) == ("key", "it is", "text", None)
    assert (over.key, over.title, over.ended) == ("worse", "it was", 6.0)
    assert over.text == "over now; it lasted 66 s"
    back, _ = attention.sentences([FINDING, worse], 9.0)
    assert (back.key, back.title, back.ended) == ("worse", "it is", None)


def test_errors_come_first_and_then_what_began_first() -> None:
    attention = Attention()
    some = [
        FINDING,
        replace(FINDING, key="old", since=-5.0),
        replace(FINDING, key="bad", level="error"),
    ]
    attention.sentences(some, 0.0)
    assert [s.key for s in attention.sentences(some, 9.0)] == ["bad", "old", "key"]


def test_many_conditions_are_not_many_sentences() -> None:
    attention = Attention()
    many = [replace(FINDING, key=str(n)) for n in range(100)]
    attention.sentences(many, 0.0)
    assert len(attention.sentences(many, 10.0)) == 20


@pytest.mark.parametrize(
    ("moment", "title", "text"),
    [
        (
            replace(CALM, is_draining=True, point=Point(sessions=3)),
            "The router is draining",
            "it lets nobody in; 3 sessions are open until they leave",
        ),
        (
            replace(CALM, slow=[SLOW]),
            "report-builder does not keep up",
            "session 7 (resp) is over its hard limit for 66 s, 1.0 MiB wait to be written;"
            " 2 publishers wait for it",
        ),
        (
            replace(CALM, apps=[APP]),
            "orders/incoming · billing falls behind",
            "659 wait, +6/s; 1 of 1 subscription has a full window",
        ),
        (
            replace(CALM, apps=[msgspec.structs.replace(APP, in_line=0, waiting=0, aside=437)]),
            "437 messages match nobody",
            "orders/incoming · billing: no subscription is true for them",
        ),
        (
            replace(CALM, apps=[msgspec.structs.replace(APP, consumers=0, app="")]),
            "Nobody reads orders/incoming",
            "659 messages wait",
        ),
        (
            replace(CALM, apps=[msgspec.structs.replace(APP, growth_per_s=0.0, stuck=True)]),
            "orders/incoming · billing is stuck",
            "659 messages, and nothing moves",
        ),
        (
            replace(CALM, problems=["store: disk full"]),
            "The router cannot do its work",
            "store: disk full",
        ),
        (
            replace(CALM, point=Point(journal_lag=100_001.0)),
            "The journal falls behind",
            "100,001 facts are not sealed",
        ),
        (
            replace(CALM, point=Point(loop_lag=0.25)),
            "The event loop is late",
            "by 250 ms: something holds everybody up",
        ),
        (
            replace(CALM, domains=[FULL]),
            "orders is full",
            "7 messages, 8 B; what comes beyond its quota is refused",
        ),
        (
            replace(CALM, happened={"x": Happened("limit", "sessions", 1234, 7.0)}),
            "The limit sessions was reached",
            "1,234 times in the last ten minutes",
        ),
        (
            replace(CALM, point=Point(delivered=100.0, returned=6.0)),
            "Consumers give much back",
            "6 of 100 deliveries a second come back",
        ),
        (
            replace(CALM, undecided=[UNDECIDED]),
            "kind == EXPRESS cannot be decided",
            "orders/q · shipping: NAME: the message lacks EXPRESS, in 100 % of the messages, and it"
            " is never true; kind and EXPRESS are both property names; quotes make a text: kind"
            ' == "EXPRESS"',
        ),
        (
            replace(CALM, unknown=[UNKNOWN]),
            "packer reads an app that is not there",
            "orders/q?id=nope: orders has no app nope, so nothing comes; its apps are shipping,"
            " billing. Correct the id, or add the app to the domain and reload",
        ),
        (
            replace(CALM, unknown=[replace(UNKNOWN, consumers=3, name="")]),
            "session 7 and 2 more read an app that is not there",
            "orders/q?id=nope: orders has no app nope, so nothing comes; its apps are shipping,"
            " billing. Correct the id, or add the app to the domain and reload",
        ),
        (
            replace(CALM, certificates=[CertificateEnd("listen.resp", "/c.crt", 12.4 * DAY)]),
            "The certificate of listen.resp ends in 12 days",
            "/c.crt: clients will refuse it then; put a new one in its place and reload",
        ),
        (
            replace(CALM, certificates=[CertificateEnd("listen.resp", "/c.crt", -1.0)]),
            "The certificate of listen.resp has ended",
            "/c.crt: clients refuse it; put a new one in its place and reload",
        ),
        (
            replace(CALM, expiry_late=1200.0, expiry_queues=1),
            "Old messages are removed late",
            "lately up to 20 min after their time; 1 queue has more of them, and nothing else of"
            " it is delivered",
        ),
        (
            replace(CALM, apps=[msgspec.structs.replace(APP, in_line=0, waiting=0, aside=1)]),
            "1 message matches nobody",
            "orders/incoming · billing: no subscription is true for it",
        ),
        (
            replace(CALM, happened={"x": Happened("limit", "sessions", 1, 7.0)}),
            "The limit sessions was reached",
            "1 time in the last ten minutes",
        ),
        (
            replace(CALM, clock_ahead=-3600.0),
            "The machine's clock has jumped",
            "by -3,600 s; the router goes on with its own until a restart",
        ),
        (
            replace(CALM, disk_free=0.05),
            "The disk is nearly full",
            "5 % of the disk with the state directory is free",
        ),
        (
            replace(CALM, point=Point(busy=0.95)),
            "Turns leave no time",
            "one is under way 95 % of the time",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_attention_is_said(moment: Moment, title: str, text: str) -> None:
    [found] = findings(moment)
    assert (found.title, found.text) == (title, text)
    assert found.past not in ("", found.text)
    assert found.command.startswith("headgate ")
    assert found.link.startswith("/")


def test_a_calm_router_needs_none() -> None:
    calm = msgspec.structs.replace(SLOW, pressure="easy", held_up=0)
    few = msgspec.structs.replace(APP, in_line=10, waiting=0)
    assert list(findings(CALM)) == []
    assert list(findings(replace(CALM, slow=[calm], apps=[few]))) == []


def test_sizes_and_times_are_for_people() -> None:
    assert [in_bytes(n) for n in (0, 1023, 1024, 5 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]
    assert [in_words(n) for n in (0.4, 119, 180, 7200, 3 * DAY)] == [
        "0 s",
        "119 s",
        "3 min",
        "2 h",
        "3 days",
    ]
    assert [some(n, "message") for n in (0, 1, 1234)] == [
        "0 messages",
        "1 message",
        "1,234 messages",
    ]
    assert [some_do(n, "fact", "is", "are") for n in (1, 2)] == ["1 fact is", "2 facts are"]
