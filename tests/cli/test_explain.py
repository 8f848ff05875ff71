"""``headgate explain``, against a router on a port and journals on disk."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.core.commands import Interest, Open, Send
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.limits import Limits
from headgate.core.model.message import Message
from headgate.core.model.window import Window
from headgate.expr.predicate import compile_expression
from headgate.journal.columns import SCHEMA
from headgate.journal.segments import name_of
from headgate.server.admin.app import make_app
from headgate.server.admin.http_server import serving
from headgate.server.in_process import InProcessSession
from headgate.server.net.listener import bind
from headgate.server.router import Router
from headgate.store.memory import MemoryStore

ORDERS = QueueId(b"bmq://orders/incoming")
NEWS = QueueId(b"bmq://news/all")
JOBS = QueueId(b"bmq://jobs/now")
DOMAINS = (
    Domain(
        "orders",
        Mode.FANOUT,
        apps=("shipping", "audit", "fraud"),
        filters={"audit": (compile_expression("amount >= 1000"), compile_expression("vip"))},
    ),
    Domain("jobs", Mode.PRIORITY, max_messages=1),
    Domain("news", Mode.BROADCAST),
)
TOKEN = "open sesame"


@asynccontextmanager
async def consumed() -> AsyncIterator[Router]:
    """A router with consumers, one of which has what it can take."""
    domains = {domain.name: domain for domain in DOMAINS}
    router = Router(store=MemoryStore(), domains=domains, limits=Limits())
    await router.start()
    shop = InProcessSession(router, "shop")
    await shop.ask(Open, ORDERS, "orders", read=False, write=True)
    await shop.ask(Open, JOBS, "jobs", read=False, write=True)
    for name, queue, domain, app, interest in (
        ("express-1", ORDERS, "orders", "shipping", Interest('kind == "express"', 10, Window(1))),
        ("express-2", ORDERS, "orders", "shipping", Interest('kind == "express"', 10, Window(5))),
        ("bulk", ORDERS, "orders", "shipping", Interest(None, 1, Window(100))),
        ("\x1b[2Jfraud", ORDERS, "orders", "fraud", Interest("amount >= 500", 0, Window(9))),
        ("worker", JOBS, "jobs", "", Interest(None, 0, Window(1))),
        *((f"reader-{n}", NEWS, "news", "", Interest("x > 0")) for n in range(7)),
    ):
        session = InProcessSession(router, name)
        await session.ask(Open, queue, domain, app, interests=(interest,))
    for queue in (ORDERS, JOBS):
        first = Message(MessageId(b"first"), b"x", router.clock(), {"kind": "express"})
        await shop.ask(Send, queue, first)
    yield router
    await router.stop()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The admin port of such a router, in a thread of its own."""
    ready, stop = threading.Event(), threading.Event()
    listening = bind("admin", "127.0.0.1", 0)

    async def run() -> None:
        async with consumed() as router:
            app = make_app(
                problems=router.problems,
                status=router.status,
                metrics=lambda: b"",
                rows=10,
                explain=router.explain,
                token=TOKEN,
            )
            async with serving(app, listening):
                ready.set()
                await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()


def run(*arguments: str, **environment: str) -> Result:
    given = {"HEADGATE_ADMIN__TOKEN": TOKEN, "http_proxy": "http://127.0.0.1:1", **environment}
    return CliRunner().invoke(cli, ["explain", *arguments], env=given)


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


# The router.


def test_three_consumers_of_a_fanout_are_explained(address: str) -> None:
    """BMQ-60, BMQ-39, BMQ-41: who gets it, who is full, who comes later, and which app is spared
    it."""
    told = run(
        "orders/incoming",
        "--property=kind=express",
        "--property=amount=20",
        "--property=vip=false",
        "--address",
        address,
    )
    assert lines(told) == [
        'bmq://orders/incoming (fanout), a message with kind="express", amount=20, vip=false',
        "",
        "shipping: goes to session 3; priority 10 is the highest that matches",
        '  priority 10  kind == "express"  true',
        "    session 3  open  0 of 5 unconfirmed    gets it                             express-2",
        "    session 2  full  1 of 1 unconfirmed    its window is full                  express-1",
        "  priority 1   (no expression)    true for every message",
        "    session 4  open  0 of 100 unconfirmed  priority 10 matches and goes first  bulk",
        "",
        "audit: auto-confirmed; none of its expressions is true",
        "  filter  amount >= 1000  false",
        "  filter  vip             false",
        "",
        "fraud: put aside; no subscription matches",
        "  priority 0  amount >= 500  false",
        "    session 5  open  0 of 9 unconfirmed  does not match  \ufffd[2Jfraud",
    ]


def test_a_missing_property_is_named(address: str) -> None:
    """BMQ-67."""
    told = lines(run("bmq://orders/incoming", "--property", "x:binary=ff", "--address", address))
    assert told[0] == "bmq://orders/incoming (fanout), a message with x=0xff"
    assert "  filter  amount >= 1000  NAME: the message lacks amount" in told
    assert "shipping: goes to session 4; priority 1 is the highest that matches" in told


def test_a_full_queue_and_a_full_consumer_are_told(address: str) -> None:
    """BMQ-40, BMQ-82."""
    told = lines(run("jobs/now", "--address", f"http://{address}/"))
    assert told == [
        "bmq://jobs/now (priority), a message with no properties",
        "It would be refused: the queue holds its limit of 1 message. With room for it:",
        "",
        "in line; nobody has room",
        "  priority 0  (no expression)  true for every message",
        "    session 6  full  1 of 1 unconfirmed  its window is full  worker",
    ]


def test_what_waits_names_who_it_waits_for() -> None:
    """BMQ-41."""
    waiting = {
        "app": "a",
        "outcome": "waits",
        "reason": "priority 9 matches and has no room",
        "receivers": [],
        "receivers_all": 0,
        "waits_for": [{"session": n, "name": "x"} for n in range(7)],
        "filters": [],
        "groups": [],
        "left_out": 3,
    }
    with answering(
        200, {"mode": "fanout", "refused": None, "is_open": True, "apps": [waiting]}
    ) as url:
        told = lines(run("orders/incoming", "--address", url))
    assert told[2:] == [
        "a: waits for session 0, session 1, session 2, session 3, session 4 and 2 more;"
        " priority 9 matches and has no room",
        "  and 3 more expressions",
    ]


def test_a_broadcast_to_many_names_some(address: str) -> None:
    """BMQ-78."""
    told = lines(run("news/all", "--property", "x=1", "--address", address))
    assert told[2].startswith("goes to session 7, session 8,")
    assert told[2].endswith("and 2 more; a broadcast is for all who match and have room")
    assert sum("  gets it  " in line for line in told) == 7


def test_a_queue_that_nobody_opened_is_told(address: str) -> None:
    told = lines(run("news/none", "--address", address))
    assert told[1:] == [
        "Nobody has opened the queue since the router started.",
        "",
        "reaches nobody; nobody has a subscription",
    ]


def test_json_is_the_answer_of_the_router(address: str) -> None:
    [line] = lines(run("orders/incoming", "--property=kind=a", "--address", address, "--json"))
    told = json.loads(line)
    assert (told["queue"], told["properties"]) == ("bmq://orders/incoming", {"kind": "a"})
    assert [app["outcome"] for app in told["apps"]] == ["delivered", "auto-confirmed", "put aside"]
    assert told["apps"][0]["receivers"] == [{"session": 4, "name": "bulk"}]


# What can be wrong.


def test_the_configuration_says_where_the_router_is(address: str, tmp_path: Path) -> None:
    host, _, port = address.rpartition(":")
    file = tmp_path / "headgate.toml"
    file.write_text(f'[admin]\nhost = "{host}"\nport = {port}\ntoken = "{TOKEN}"\n')
    assert lines(run("news/none", "--config", str(file)))
    assert lines(run("news/none", HEADGATE_ROUTER=f"http://{address}"))


def test_a_token_that_is_wrong_says_where_it_comes_from(address: str) -> None:
    told = run("news/none", "--address", address, HEADGATE_ADMIN__TOKEN="wrong")
    assert told.exit_code == 5
    assert "does not know this token" in told.stderr


def test_the_token_is_found_in_the_state_directory_or_in_a_file(
    address: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "admin.token").write_text(f"{TOKEN}\n")
    (tmp_path / "wrong").write_text("wrong\n")
    environment = {"HEADGATE_ADMIN__TOKEN": None, "HEADGATE_DIRECTORY": str(state)}

    def told(**more: str) -> Result:
        arguments = ["explain", "news/none", "--address", address]
        return CliRunner().invoke(cli, arguments, env={**environment, **more})

    assert lines(told())
    assert lines(told(HEADGATE_TOKEN_FILE=str(state / "admin.token")))
    assert told(HEADGATE_TOKEN_FILE=str(tmp_path / "wrong")).exit_code == 5
    assert "wants its token" in told(HEADGATE_DIRECTORY=str(tmp_path)).stderr


def test_an_unknown_domain_is_answered_with_those_that_exist(address: str) -> None:
    told = run("new/all", "--address", address)
    assert told.exit_code == 1
    assert told.stderr == (
        "headgate: no domain new has shared queues; the router has jobs, news, orders\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (
            ["news/all", "--address", "127.0.0.1:1"],
            4,
            "the router at http://127.0.0.1:1 does not answer: ",
        ),
        (["news/all", "--address", "127.0.0.1:1"], 4, "; see whether it runs"),
        (["news/all", "--address", "here"], 1, "write it as http://127.0.0.1:8222"),
        (["news/all", "--address", ":1"], 1, "write it as http://127.0.0.1:8222"),
        (["news"], 2, "write DOMAIN/QUEUE or bmq://DOMAIN/QUEUE"),
        (["news/a b"], 2, "write DOMAIN/QUEUE or bmq://DOMAIN/QUEUE"),
        (["news/all", "--property", "x"], 2, "write NAME=VALUE"),
        (["news/all", "--message", "xy"], 2, "an id is written in hex"),
        (["news/all", "--message", "00", "--property", "x=1"], 2, "leave out --property"),
    ],
)
def test_a_mistake_says_what_to_do(arguments: list[str], code: int, error: str) -> None:
    told = run(*arguments)
    assert told.exit_code == code
    assert error in " ".join(told.stderr.split())


def test_a_port_that_was_picked_must_be_said() -> None:
    told = run("news/all", HEADGATE_ADMIN__PORT="0")
    assert told.exit_code == 1
    assert "say it with --url" in told.stderr


@contextmanager
def answering(status: int, body: object) -> Iterator[str]:
    """The URL of somebody who answers this, whatever is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, {"error": "no such path"}, "is not a router that can explain"),
        (405, {"error": "Method Not Allowed"}, "is not a router that can explain"),
        (500, b"oops", "is not the admin port of a router"),
        (500, ["error"], "is not the admin port of a router"),
        (200, b"<html>", "is not the admin port of a router"),
        (503, {"error": "router: starting"}, "headgate: router: starting\n"),
    ],
    ids=str,
)
def test_what_somebody_else_answers_is_told(status: int, body: object, error: str) -> None:
    with answering(status, body) as url:
        told = run("news/all", "--address", url)
    assert told.exit_code == 1
    assert error in told.stderr


# The journal.

AT = 1_700_000_000.0
SENT = bytes.fromhex("00ff10")
OTHER = b"bmq://orders/other"


def fact(kind: str, **fields: object) -> dict[str, object]:
    return {"kind": kind, "at": AT, **fields}


def about(kind: str, queue: bytes = ORDERS, **fields: object) -> dict[str, object]:
    return fact(kind, queue=queue, message=SENT, **fields)


def write(directory: Path, *segments: list[dict[str, object]]) -> None:
    """A journal of these segments."""
    (directory / "journal").mkdir()
    number = 1
    for rows in segments:
        last = number + len(rows) - 1
        numbered = [{"number": n, **row} for n, row in enumerate(rows, number)]
        table = pa.Table.from_pylist(numbered, schema=SCHEMA)
        pq.write_table(table, directory / "journal" / name_of(number, last))
        number = last + 1


HISTORY: list[dict[str, object]] = [
    fact("SessionOpened", session=1, wire="bmq", name="express"),
    fact("SessionOpened", session=2, wire="bmq", name="bulk"),
    about(
        "Accepted",
        size=20,
        body=b"secret",
        properties=[("kind", {"s": "express"}), ("amount", {"i": 20}), ("vip", {"b": False})],
    ),
    about("AutoConfirmed", app="audit"),
    about("PutAside", app="shipping", matched=True),
    about("PutAside", app="fraud", matched=False),
    about("Delivered", app="shipping", session=1, attempts=0),
    fact("Delivered", queue=ORDERS, message=b"1", app="shipping", session=1, attempts=0),
    about("Returned", app="shipping", session=1, lost=True),
    about("Returned", app="shipping", session=2, lost=False),
    about("Repeated"),
]
LATER: list[dict[str, object]] = [
    fact("RouterStarted", version="1"),
    fact("SessionOpened", session=1, wire="bmq", name="reserve"),
    about("Delivered", app="shipping", session=1, attempts=1),
    about("Confirmed", app="shipping", session=1, seconds=0.25, age=1.0),
    about("Poisoned", app="fraud", attempts=3),
    about("Missed", session=7),
    about("Expired", seconds=60.2),
    about("Delivered", queue=QueueId(OTHER), app="shipping", session=2, attempts=0),
]


def from_journal(folder: Path, *arguments: str) -> Result:
    return run(*arguments, HEADGATE_DIRECTORY=str(folder))


def test_the_history_of_a_message_is_told_in_order(address: str, tmp_path: Path) -> None:
    """Numbers of sessions are given again after a restart; their names are those of the time."""
    write(tmp_path, HISTORY, LATER)
    told = lines(
        from_journal(tmp_path, "orders/incoming", "--message", "00FF10", "--address", address)
    )
    assert told[:17] == [
        'bmq://orders/incoming (fanout), a message with kind="express", amount=20, vip=false',
        "",
        "What happened to 00ff10:",
        *(
            f"  2023-11-14 22:13:20.000  {line}"
            for line in (
                "accepted                  20 bytes",
                "auto-confirmed  audit     none of the app's expressions was true",
                "put aside       shipping  those who matched had no room",
                "put aside       fraud     nobody matched",
                "delivered       shipping  to session 1 (express)",
                "returned        shipping  session 1 (express) was lost",
                "returned        shipping  session 2 (bulk) closed the queue",
                "sent again                and not stored again",
                "delivered       shipping  to session 1 (reserve), after 1 lost with it",
                "confirmed       shipping  by session 1 (reserve) after 0.250 s",
                "dropped         fraud     3 sessions lost with it",
                "missed                    the mailbox of session 7 had no room",
                "expired                   after 60 s",
            )
        ),
        "",
    ]
    assert told[17] == "What would happen to it now:"
    assert "shipping: goes to session 3; priority 10 is the highest that matches" in told


def test_the_history_is_told_without_a_router_too(tmp_path: Path) -> None:
    write(tmp_path, HISTORY)
    arguments = ("orders/incoming", "--message", "00ff10", "--address", "127.0.0.1:1")
    told = from_journal(tmp_path, *arguments)
    assert told.exit_code == 4
    assert "delivered       shipping  to session 1 (express)" in told.stdout
    assert "does not answer" in told.stderr
    row = json.loads(from_journal(tmp_path, *arguments, "--json").stdout)
    assert row["message"] == "00ff10"
    assert row["properties"] == {"kind": "express", "amount": 20, "vip": False}
    assert [each["kind"] for each in row["history"]][:2] == ["Accepted", "AutoConfirmed"]
    assert "secret" not in json.dumps(row)
    assert row["history"][4] == {
        "number": 7,
        "kind": "Delivered",
        "at": AT,
        "app": "shipping",
        "message": "00ff10",
        "session": 1,
        "attempts": 0,
        "name": "express",
    }


def test_a_message_without_properties_has_a_history(address: str, tmp_path: Path) -> None:
    write(tmp_path, [about("Accepted", queue=QueueId(b"bmq://news/all"), size=1)])
    told = lines(from_journal(tmp_path, "news/all", "--message", "00ff10", "--address", address))
    assert told[0] == "bmq://news/all (broadcast), a message with no properties"


def test_a_message_of_another_queue_is_told_where_it_is(tmp_path: Path) -> None:
    write(tmp_path, HISTORY)
    told = from_journal(tmp_path, "orders/other", "--message", "00ff10")
    assert told.exit_code == 1
    assert "of bmq://orders/other; it is one of bmq://orders/incoming." in told.stderr
    told = from_journal(tmp_path, "orders/other", "--message", "1234")
    assert told.exit_code == 1
    assert "does not tell of a message 1234 of bmq://orders/other." in told.stderr


def test_without_a_journal_the_properties_have_to_be_said(tmp_path: Path) -> None:
    told = run("orders/incoming", "--message", "00ff10", HEADGATE_STORE__URL="memory:")
    assert told.exit_code == 1
    assert "keeps no journal; say the properties instead" in told.stderr


def test_a_segment_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path, HISTORY)
    [segment] = (tmp_path / "journal").iterdir()
    segment.write_bytes(segment.read_bytes()[:50])
    told = from_journal(tmp_path, "orders/incoming", "--message", "00ff10")
    assert told.exit_code == 1
    assert re.search(rf"{segment.name} cannot be read: .*journal verify tells more", told.stderr)
