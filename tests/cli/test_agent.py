"""`headgate agent`, and `headgate pub` to the address of a queue, with a router in a process of
its own."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headgate.cli import cli
from headgate.cli.agent import place
from tests.support.agent_router import SmpProcess

NOWHERE = f"smp://{'A' * 43}=@127.0.0.1:1"


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmpProcess]:
    router = SmpProcess(tmp_path_factory.mktemp("router"))
    router.start()
    yield router
    router.stop()
    assert "Traceback" not in router.log


class Folder:
    """Where somebody types commands."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command in a process of its own, beside which others run."""
        return subprocess.Popen(
            [sys.executable, "-c", "from headgate.cli import main; main()", *arguments],
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, stdin: str = "", **environ: str) -> Result:
        with chdir(self.path):
            done = CliRunner().invoke(
                cli, arguments, input=stdin, env=environ, prog_name="headgate"
            )
        assert isinstance(done.exception, SystemExit | None), done.output
        return done

    def agent(self, *arguments: str, stdin: str = "") -> str:
        """What a command printed that worked."""
        done = self.run("agent", *arguments, stdin=stdin)
        assert done.exit_code == 0, done.stderr
        return done.stdout.removesuffix("\n")

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.agent(*arguments, "--json").splitlines()]

    def error(self, *arguments: str, code: int = 1) -> str:
        """The one line of a command that failed."""
        done = self.run("agent", *arguments)
        assert (done.exit_code, done.stdout) == (code, ""), done.stderr
        assert done.stderr.startswith("headgate: ")
        assert done.stderr.count("\n") == 1
        return done.stderr


@pytest.fixture
def anna(tmp_path: Path, router: SmpProcess) -> Folder:
    return folder(tmp_path / "anna", router)


@pytest.fixture
def bob(tmp_path: Path, router: SmpProcess) -> Folder:
    return folder(tmp_path / "bob", router)


def folder(path: Path, router: SmpProcess) -> Folder:
    path.mkdir()
    made = Folder(path)
    assert made.agent("init", "--router", router.address) == "agent.db"
    return made


def test_messages_go_from_one_file_to_the_other(anna: Folder, bob: Folder) -> None:
    address = anna.agent("queue", "new", "meters")
    assert bob.agent("send", address, "one") == "sent"
    assert bob.agent("send", address, "-", stdin="two\n\x1b[1m") == "sent"
    assert anna.agent("listen", "--count", "2") == "meters: one\nmeters: two\\n\\x1b[1m"
    assert bob.rows("send", address, "three") == [{"to": address, "sent": True}]
    [row] = anna.rows("listen", "--count", "1")
    assert (row["from"], row["body"]) == ("meters", "three")
    assert "attempts" not in row


def test_what_is_no_text_is_hex(anna: Folder, bob: Folder) -> None:
    address = anna.agent("queue", "new", "meters")
    for _ in range(2):
        assert bob.agent("send", address, os.fsdecode(b"\xff\x01")) == "sent"
    assert anna.agent("listen", "--count", "1") == "meters: ff01"
    [row] = anna.rows("listen", "--count", "1")
    assert row["hex"] == "ff01"
    assert "body" not in row


def test_a_queue_is_made_once_and_listed(anna: Folder, router: SmpProcess) -> None:
    made = anna.rows("queue", "new", "meters")
    again = anna.run("agent", "queue", "new", "meters")
    assert again.stdout == made[0]["address"] + "\n"
    assert "already" in again.stderr
    other = anna.agent("queue", "new", "orders", "--router", router.address)
    listed = anna.rows("queue", "list")
    assert sorted(row["name"] for row in listed) == ["meters", "orders"]
    assert {row["address"] for row in listed} == {made[0]["address"], other}
    assert f"orders: {other}" in anna.agent("queue", "list").splitlines()


def test_a_queue_is_deleted_at_its_router_and_its_name_is_free(anna: Folder, bob: Folder) -> None:
    address = anna.agent("queue", "new", "meters")
    assert bob.agent("send", address, "unread") == "sent"
    assert anna.agent("queue", "delete", "meters") == "deleted"
    assert anna.agent("queue", "list") == ""
    assert "queue list" in anna.error("queue", "delete", "meters")
    refused = bob.run("agent", "send", address, "too late")
    assert (refused.exit_code, "cannot be sent" in refused.stderr) == (1, True)
    assert anna.agent("queue", "new", "meters") != address
    assert anna.rows("queue", "delete", "meters") == [{"name": "meters", "deleted": True}]


def test_a_file_is_not_made_twice_and_can_be_named(
    tmp_path: Path, anna: Folder, router: SmpProcess
) -> None:
    before = (anna.path / "agent.db").read_bytes()
    assert "already" in anna.error("init", "--router", router.address)
    assert (anna.path / "agent.db").read_bytes() == before
    assert anna.agent("init", "--file", "b.db", "--router", router.address) == "b.db"
    assert (anna.path / "b.db").stat().st_mode & 0o777 == 0o600
    elsewhere = Folder(tmp_path)
    named = {"HEADGATE_AGENT": str(anna.path / "b.db")}
    done = elsewhere.run("agent", "status", "--offline", **named)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "agent init" in elsewhere.error("status")
    assert "agent init" in elsewhere.error("listen")
    assert "agent init" in elsewhere.error("send", "x", "y")
    assert "agent init" in elsewhere.error("service", "on")
    assert not (tmp_path / "agent.db").exists()


def test_a_wrong_router_is_refused_with_where_to_find_one(tmp_path: Path) -> None:
    done = Folder(tmp_path).run("agent", "init", "--router", "relay.example.org")
    assert done.exit_code == 2
    assert "headgate init" in done.stderr


def test_a_command_takes_a_message_or_gets_it_again(anna: Folder, bob: Folder) -> None:
    address = anna.agent("queue", "new", "meters")
    assert bob.agent("send", address, "42") == "sent"
    failed = anna.run("agent", "listen", "--count", "1", "--exec", "cat > first; exit 3")
    assert failed.exit_code == 1
    assert "ended with 3" in failed.stderr
    assert (anna.path / "first").read_text() == "42"
    assert anna.rows("status", "--offline")[0]["to_read"] == 1
    command = '(cat; echo " $HEADGATE_AGENT_FROM") > second'
    assert anna.agent("listen", "--count", "1", "--exec", command) == ""
    assert (anna.path / "second").read_text() == "42 meters\n"
    assert anna.rows("status", "--offline")[0]["to_read"] == 0
    misused = anna.run("agent", "listen", "--json", "--exec", "cat")
    assert (misused.exit_code, "--exec" in misused.stderr) == (2, True)


def test_two_are_connected_by_a_link_and_write_both_ways(anna: Folder, bob: Folder) -> None:
    link = anna.agent("invite", "--name", "bob")
    assert link.startswith("simplex:/invitation#")
    assert anna.rows("invite", "--name", "bob") == [{"name": "bob", "link": link}]
    assert "not connected yet" in anna.error("send", "bob", "too early")
    assert bob.agent("join", link, "--name", "anna", "--wait", "0") == "joining"
    with anna.start("agent", "invite", "--name", "bob", "--wait") as inviting:
        assert inviting.stdout is not None
        assert inviting.stdout.readline() == f"{link}\n", "the same, since nobody has used it"
        with bob.start("agent", "listen") as listening:
            assert listening.stderr is not None
            assert any(line == "connected with anna\n" for line in listening.stderr)
            listening.terminate()
        assert inviting.stdout.readline() == "connected\n"
    for number in range(2):
        assert bob.agent("send", "anna", f"hello {number}") == "sent"
        assert anna.agent("listen", "--count", "1") == f"bob: hello {number}"
        assert anna.agent("send", "bob", f"and you {number}") == "sent"
        [row] = bob.rows("listen", "--count", "1", "--from", "anna")
        assert (row["from"], row["body"]) == ("anna", f"and you {number}")
    again = bob.run("agent", "join", link, "--name", "ann", "--json")
    assert json.loads(again.stdout) == {"name": "anna", "connected": True}
    assert "for anna" in again.stderr
    assert "name" in anna.error("invite", "--name", "bob")
    assert "name" in anna.error("queue", "new", "bob")
    assert anna.rows("connection", "list") == [{"name": "bob", "status": "ready"}]
    assert bob.agent("connection", "list") == "anna: ready"
    assert anna.agent("check") == bob.agent("check") == "ok"


def test_keys_against_computers_to_come_may_be_wanted(anna: Folder, bob: Folder) -> None:
    pytest.importorskip("pqcrypto")
    link = anna.agent("invite", "--name", "bob", "--pq")
    assert "kem_key" in link
    with anna.start("agent", "invite", "--name", "bob", "--wait") as inviting:
        assert bob.agent("join", link, "--name", "anna", "--pq", "--wait", "60") == "connected"
        assert inviting.wait() == 0


def test_a_connection_is_deleted_at_its_router_and_its_name_is_free(anna: Folder) -> None:
    link = anna.agent("invite", "--name", "bob")
    assert anna.agent("connection", "list") == "bob: invited"
    anna.agent("queue", "new", "meters")
    assert anna.agent("connection", "delete", "bob") == "deleted"
    assert anna.agent("connection", "list") == ""
    for name in ("bob", "meters"):
        assert "connection list" in anna.error("connection", "delete", name)
    assert anna.agent("invite", "--name", "bob") != link
    assert anna.rows("connection", "delete", "bob") == [{"name": "bob", "deleted": True}]
    assert anna.rows("status", "--offline")[0]["queues"] == 1
    assert anna.agent("check") == "ok"


def test_a_short_link_is_used_once(
    anna: Folder, bob: Folder, tmp_path: Path, router: SmpProcess
) -> None:
    with anna.start("agent", "invite", "--name", "bob", "--short", "--wait") as inviting:
        assert inviting.stdout is not None
        link = inviting.stdout.readline().rstrip("\n")
        assert len(link) < 200
        assert bob.rows("join", link, "--name", "anna", "--wait", "60") == [
            {"name": "anna", "connected": True}
        ]
        assert inviting.stdout.readline() == "connected\n"
    eve = folder(tmp_path / "eve", router)
    assert "somebody else" in eve.error("join", link, "--name", "anna")
    assert "quotes" in eve.error("join", link.partition("#")[0], "--name", "anna")


def test_only_one_queue_is_read_if_it_is_named(anna: Folder, bob: Folder) -> None:
    north, south = (anna.agent("queue", "new", name) for name in ("north", "south"))
    assert bob.agent("send", north, "from the north") == "sent"
    assert bob.agent("send", south, "from the south") == "sent"
    named = anna.agent("listen", "--count", "1", "--from", "south")
    assert named == "south: from the south"
    assert anna.agent("listen", "--count", "1") == "north: from the north"
    assert "queue list" in anna.error("listen", "--from", "west")
    assert anna.agent("service", "on") == "service on"
    assert "service off" in anna.error("listen", "--from", "south")


def test_commands_that_do_not_listen_leave_messages_unread(anna: Folder, bob: Folder) -> None:
    ours, theirs = anna.agent("queue", "new", "ours"), bob.agent("queue", "new", "theirs")
    assert bob.agent("send", ours, "unread") == "sent"
    for _ in range(2):
        assert anna.agent("send", theirs, "hello") == "sent"
        anna.agent("queue", "new", "another")
    [row] = anna.rows("listen", "--count", "1")
    assert row["body"] == "unread"
    assert "attempts" not in row


def test_an_address_has_one_sender(anna: Folder, bob: Folder, tmp_path: Path) -> None:
    address = anna.agent("queue", "new", "once")
    sent = bob.run("pub", address, "hello")
    assert (sent.stdout, sent.stderr) == ("sent\n", "")
    assert "somebody else" in bob.error("send", address, "hello")
    again = bob.run("pub", address, "hello")
    assert (again.exit_code, "somebody else" in again.stderr) == (1, True)
    assert anna.agent("listen", "--count", "1") == "once: hello"
    other = anna.agent("queue", "new", "other")
    done = Folder(tmp_path).run("pub", "--json", other, stdin="hello")
    assert json.loads(done.stdout) == {"address": other, "sent": True}
    assert not list(tmp_path.glob("*.db")), "nothing is stored"


def test_what_is_no_address_is_named(anna: Folder, bob: Folder) -> None:
    address = anna.agent("queue", "new", "meters")
    assert "reads" in anna.error("send", "meters", "x")
    assert "agent join" in anna.error("send", "nobody", "x")
    assert "quotes" in bob.error("send", address.partition("#")[0], "x")
    cut = bob.run("pub", address.partition("#")[0], "x")
    assert (cut.exit_code, "quotes" in cut.stderr) == (1, True)
    misused = bob.run("pub", address, "x", "--property", "a=1")
    assert (misused.exit_code, "bmq://" in misused.stderr) == (2, True)


def test_what_is_sent_while_the_router_is_away_is_stored(tmp_path: Path) -> None:
    router = SmpProcess(tmp_path / "router")
    router.start()
    anna, bob = folder(tmp_path / "anna", router), folder(tmp_path / "bob", router)
    address = anna.agent("queue", "new", "meters")
    other = anna.agent("queue", "new", "other")
    anna.agent("queue", "new", "gone")
    router.stop()
    stored = bob.run("agent", "send", address, "one")
    assert (stored.exit_code, stored.stdout) == (0, "stored\n")
    assert "no router answers" in stored.stderr
    [row] = bob.rows("send", address, "two")
    assert (row["sent"], "no router answers" in row["why"]) == (False, True)
    [status] = bob.rows("status")
    assert (status["to_send"], status["answers"]) == (2, False)
    assert "2 to send" in bob.agent("status")
    assert "no router answers" in anna.error("queue", "new", "third", code=4)
    away = anna.run("agent", "queue", "delete", "gone")
    assert (away.exit_code, away.stdout) == (0, "deleted\n")
    assert "no router answers" in away.stderr
    lost = bob.run("pub", other, "lost")
    assert (lost.exit_code, lost.stdout) == (4, "")
    assert "not stored" in lost.stderr
    router.start()
    assert bob.agent("send", address, "three", "--wait", "60") == "sent"
    assert bob.rows("status", "--offline")[0]["to_send"] == 0
    printed = anna.agent("listen", "--count", "3")
    assert printed == "meters: one\nmeters: two\nmeters: three"
    router.stop()


def test_a_file_in_use_can_be_looked_into_and_nothing_else(anna: Folder) -> None:
    address = anna.agent("queue", "new", "meters")
    with anna.start("agent", "listen") as listening:
        assert listening.stderr is not None
        assert listening.stderr.readline().startswith("listening at 127.0.0.1:")
        assert anna.rows("queue", "list") == [{"name": "meters", "address": address}]
        assert anna.rows("status")[0]["answers"] is True
        assert anna.agent("check") == "ok"
        for arguments in (("queue", "new", "b"), ("send", address, "x"), ("service", "on")):
            assert "another agent uses it" in anna.error(*arguments)
        listening.terminate()


def test_a_service_has_its_queues_and_gives_them_back(anna: Folder, bob: Folder) -> None:
    assert anna.agent("service", "on") == "service on"
    address = anna.agent("queue", "new", "meters")
    assert bob.agent("send", address, "one") == "sent"
    assert anna.agent("listen", "--count", "1") == "meters: one"
    [row] = anna.rows("status")
    assert (row["service"], row["queues"], row["in_service"]) == (True, 1, 1)
    assert "1 queue (1 in the service)" in anna.agent("status", "--offline")
    assert anna.rows("service", "off") == [{"service": "off"}]
    assert bob.agent("send", address, "two") == "sent"
    assert anna.agent("listen", "--count", "1") == "meters: two"
    [row] = anna.rows("status", "--offline")
    assert (row["service"], row["in_service"]) == (False, 0)
    assert anna.agent("check") == "ok"


def test_a_fault_is_found(anna: Folder) -> None:
    anna.agent("queue", "new", "meters")
    database = sqlite3.connect(anna.path / "agent.db")
    database.execute("DELETE FROM connections")
    database.commit()
    database.close()
    done = anna.run("agent", "check")
    assert done.exit_code == 3
    assert "1 receive queues without a connection" in done.stdout
    done = anna.run("agent", "check", "--json")
    assert json.loads(done.stdout) == {"fault": "1 receive queues without a connection"}


async def test_a_person_learns_what_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(place, "PROGRESS_SECONDS", 0.0)
    for is_terminal, printed in ((True, "waiting ...\n"), (False, "")):
        monkeypatch.setattr(sys.stderr, "isatty", lambda shown=is_terminal: shown)
        async with place.progress("waiting ...") as timer:
            while timer.when() > asyncio.get_running_loop().time():  # noqa: ASYNC110
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
        assert capsys.readouterr().err == printed


def test_a_router_that_asks_for_a_password_is_named_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = SmpProcess(tmp_path / "router")
    monkeypatch.setenv("HEADGATE_SMP__CREATE_PASSWORD", "sesame")
    router.start()
    monkeypatch.undo()
    anna = folder(tmp_path / "anna", router)
    for arguments in (("queue", "new", "meters"), ("invite", "--name", "bob")):
        assert "PASSWORD@" in anna.error(*arguments, code=5)
    named = router.address.replace("@", ":sesame@")
    assert "sesame" not in anna.agent("queue", "new", "meters", "--router", named)
    assert "sesame" not in anna.agent("invite", "--name", "bob", "--router", named)
    assert "sesame" not in anna.agent("status", "--offline")
    router.stop()


def test_a_router_that_never_was_is_reported_at_once(tmp_path: Path) -> None:
    alone = Folder(tmp_path)
    alone.agent("init", "--router", NOWHERE)
    [row] = alone.rows("status")
    assert (row["answers"], row["queues"]) == (False, 0)
    assert "no router answers on 127.0.0.1:1" in alone.error("queue", "new", "x", code=4)
