"""`headgate ntf`: every command plain and as JSON, with wrong input, and without what it needs."""

from __future__ import annotations

import asyncio
import json
import socket
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result
from starlette.responses import Response

from headgate.cli import cli
from headgate.notify.push_content import CheckPush
from headgate.notify.subscriptions import NotifierSubscription
from headgate.ntf_server.records import Records, Tables, routers, subscriptions, tokens
from headgate.ntf_server.records.routers import ServiceCredentials
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.devices import WebPushDevice
from headgate.wire.ntf.statuses import SubscriptionStatus, TokenStatus
from tests.support.http_services import Certificate, serving_app
from tests.support.ntf_examples import NOTIFIER_PRIVATE, ROUTER, SUBSCRIPTION, WEB_DEVICE
from tests.support.ntf_tokens import token_in
from tests.support.push_services import WebPushService
from tests.support.smp_examples import NOTIFIER

T = TypeVar("T")

OWNER = token_in(TokenStatus.ACTIVE)
MADE = NotifierSubscription(
    SUBSCRIPTION,
    OWNER.id,
    ROUTER,
    NOTIFIER,
    NOTIFIER_PRIVATE,
    SubscriptionStatus.ACTIVE,
    is_associated=True,
)
COMMANDS = ("init", "check", "tokens", "routers", "audit", "config show")


class Folder:
    """Where somebody types commands, with a store in it or without."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *arguments: str, **environ: str) -> Result:
        with chdir(self.path):
            done = CliRunner().invoke(cli, ["ntf", *arguments], env=environ, prog_name="headgate")
        assert isinstance(done.exception, SystemExit | None), done.output
        return done

    def printed(self, *arguments: str) -> str:
        """What a command printed that worked."""
        done = self.run(*arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.printed(*arguments, "--json").splitlines()]

    def error(self, *arguments: str, code: int = 1) -> str:
        """The one line of a command that failed."""
        done = self.run(*arguments)
        assert (done.exit_code, done.stdout) == (code, ""), done.output
        assert done.stderr.startswith("headgate: ")
        assert done.stderr.count("\n") == 1
        return done.stderr

    def store(self, job: Callable[[Tables], T]) -> T:
        """Do something to the records as a server would."""

        async def work() -> T:
            async with await Records.open("sqlite:ntf.db", self.path / "ntf") as records:
                return await records.write(job)

        return asyncio.run(work())


def fill(tables: Tables) -> None:
    tokens.put(tables, OWNER)
    number = routers.number_of(tables, ROUTER)
    routers.put_credentials(tables, number, ServiceCredentials(b"c", b"k", b"\xab\xcd"))
    subscriptions.put(tables, number, MADE)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A server that was never started."""
    (tmp_path / "ntf.toml").write_text("[admin]\nport = 0\n[listen.ntf]\nport = 0\n")
    return Folder(tmp_path)


@pytest.fixture
def filled(folder: Folder) -> Folder:
    """One that has a token and a subscription."""
    folder.store(fill)
    return folder


def test_init_makes_an_identity_once(folder: Folder) -> None:
    (folder.path / "ntf.toml").unlink()
    address = folder.printed("init", "--host", "push.example.org").strip()
    assert NtfAddress.parse(address).hosts == ("push.example.org",)
    assert folder.printed("init").strip() == address
    [row] = folder.rows("init")
    assert row["address"] == address
    assert row["folder"] == str(folder.path / "ntf" / "identity")
    assert len(row["web_push_key"]) == 87
    for path in (folder.path / "ntf").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_init_without_web_push_makes_no_key(folder: Folder) -> None:
    (folder.path / "ntf.toml").write_text("[ntf.webpush]\nenabled = false")
    [row] = folder.rows("init")
    assert "web_push_key" not in row
    assert not (folder.path / "ntf" / "web_push.key").exists()


def test_init_where_nothing_can_be_written(folder: Folder) -> None:
    (folder.path / "ntf").write_text("a file")
    assert "the identity cannot be made in" in folder.error("init")


def test_tokens_are_counted_by_provider_and_status(filled: Folder) -> None:
    assert filled.printed("tokens") == "         1  apns_test  ACTIVE\n"
    assert filled.rows("tokens") == [{"provider": "apns_test", "status": "ACTIVE", "tokens": 1}]
    assert filled.run("tokens").stderr == "1 token, 1 subscription\n"


def test_routers_are_shown_with_their_service(filled: Folder) -> None:
    shown = filled.printed("routers")
    assert shown == f"{ROUTER.text}: 1 ACTIVE (1 in the service)\n"
    [row] = filled.rows("routers")
    assert row == {
        "router": ROUTER.text,
        "subscriptions": {"ACTIVE": 1},
        "in_service": 1,
        "service": "abcd",
    }


def test_a_router_without_a_service_says_so(filled: Folder) -> None:
    filled.store(lambda tables: routers.forget_service(tables, routers.RouterNumber(1)))
    assert filled.printed("routers").endswith(": 1 ACTIVE (no service)\n")


def test_an_audit_finds_what_does_not_add_up(filled: Folder) -> None:
    """S001-92: the kept tally of each router is compared with a recount."""
    assert filled.printed("audit") == "ok\n"
    assert filled.printed("audit", "--json") == ""
    filled.store(lambda tables: tables.change("UPDATE routers SET count = 7"))
    filled.store(lambda tables: tables.change("UPDATE tokens SET held = 9"))
    done = filled.run("audit")
    assert done.exit_code == 3
    tally, held = done.stdout.splitlines()
    assert tally.startswith("router 1: the kept tally is 7 subscriptions")
    assert held == "1 tokens with a wrong count of subscriptions"
    done = filled.run("audit", "--json")
    assert done.exit_code == 3
    assert [set(json.loads(line)) for line in done.stdout.splitlines()] == [{"fault"}] * 2


@pytest.mark.parametrize("command", ["tokens", "routers", "audit"])
def test_a_store_that_nobody_made_yet(folder: Folder, command: str) -> None:
    assert "`headgate ntf serve` makes it" in folder.error(command)
    assert not (folder.path / "ntf").exists()


@pytest.mark.parametrize("command", ["tokens", "routers", "audit"])
def test_a_database_that_is_away(folder: Folder, command: str) -> None:
    url = "postgresql://me:sesame@127.0.0.1:1/nothing"
    (folder.path / "ntf.toml").write_text(f'[ntf]\nstore = "{url}"\n')
    error = folder.error(command)
    assert "the server cannot be reached" in error
    assert "sesame" not in error


@pytest.mark.parametrize("command", [*COMMANDS, "serve"])
def test_a_wrong_configuration_is_one_line(folder: Folder, command: str) -> None:
    (folder.path / "ntf.toml").write_text("[ntf]\nstor = 1")
    if command == "check":
        done = folder.run(command)
        assert done.exit_code == 3
        assert done.stdout.startswith("FAIL  config")
    else:
        error = folder.error(*command.split())
        assert "ntf.stor: unknown key; did you mean store?" in error


@pytest.mark.parametrize("command", [*COMMANDS, "serve"])
def test_a_configuration_that_is_not_there(folder: Folder, command: str) -> None:
    done = folder.run(*command.split(), "--config", "nowhere.toml")
    assert done.exit_code == (3 if command == "check" else 1)
    assert "nowhere.toml: cannot be read: No such file or directory" in done.output


@pytest.mark.parametrize("command", [*COMMANDS, "serve", "push-test"])
def test_misuse_is_two(folder: Folder, command: str) -> None:
    assert folder.run(*command.split(), "--nonsense").exit_code == 2


def test_check_looks_at_everything(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.server.check.is_in_container", lambda: False)
    names = ("config", "directory", "store", "admin", "listen.ntf", "identity", "providers")
    rows = folder.rows("check")
    assert tuple(row["name"] for row in rows) == names
    assert all(row["ok"] for row in rows)
    assert [path.name for path in folder.path.iterdir()] == ["ntf.toml"], "nothing is left behind"
    assert folder.printed("check").startswith("ok    config")


def test_check_finds_what_is_wrong(filled: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (filled.path / "ntf.toml").write_text(
            f"[admin]\nport = 0\n[listen.ntf]\nport = {port}\n[ntf.webpush]\nkey = 'nowhere.pem'\n"
        )
        (filled.path / "ntf" / "identity").mkdir()
        (filled.path / "ntf" / "identity" / "ca.crt").write_text("nothing")
        done = filled.run("check", "--json")
    assert done.exit_code == 3
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = {row["name"]: row["text"] for row in found if not row["ok"]}
    assert set(wrong) == {"listen.ntf", "identity", "providers"}
    assert "nowhere.pem" in wrong["providers"]
    assert "1 token, 1 subscription" in done.stdout


def test_check_of_a_store_that_is_no_database(folder: Folder) -> None:
    (folder.path / "ntf").mkdir(mode=0o700)
    (folder.path / "ntf" / "ntf.db").write_bytes(b"not a database" * 1000)
    done = folder.run("check", "--json")
    found = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}
    store = found["store"]
    assert not store["ok"]
    assert "not an SQLite database" in store["text"]


def test_the_configuration_is_shown_without_secrets(folder: Folder) -> None:
    url = "postgresql://me:sesame@db/x"
    (folder.path / "ntf.toml").write_text(f'[ntf]\nstore = "{url}"\n[admin]\ntoken = "sesame"\n')
    shown = folder.printed("config", "show")
    assert "sesame" not in shown
    assert "ntf.services = true" in shown
    rows = {row["key"]: row for row in folder.rows("config", "show")}
    assert rows["ntf.store"]["origin"] == "file"
    assert rows["ntf.periodic"]["origin"] == "default"
    assert "[ntf.webpush]" in folder.printed("config", "default")


# Pushing once.


def texts_of(device: WebPushDevice) -> tuple[str, str, str]:
    auth, key = (urlsafe_b64encode(each).decode().rstrip("=") for each in (device.auth, device.key))
    return device.url, auth, key


@pytest.fixture
def certificate(folder: Folder) -> Certificate:
    made = Certificate.make(folder.path / "tls")
    (folder.path / "ntf.toml").write_text(
        f'[ntf.webpush]\nallow_private = ["localhost"]\nca = "{made.certificate}"\n'
        'contact = "mailto:ops@example.org"\n'
    )
    return made


def pushed(
    folder: Folder, certificate: Certificate, *options: str, answer: Response | None = None
) -> tuple[Result, WebPushService]:
    """What a command said that pushed to a service on this machine."""
    service = WebPushService()
    if answer is not None:
        service.answers.append(answer)
    service.sender_key = folder.rows("init")[0]["web_push_key"]

    async def work() -> Result:
        async with serving_app(service.app, certificate) as port:
            service.origin = f"https://localhost:{port}"
            arguments = texts_of(service.subscribe().device)
            return await asyncio.to_thread(folder.run, "push-test", *options, *arguments)

    return asyncio.run(work()), service


def test_a_push_that_arrives(folder: Folder, certificate: Certificate) -> None:
    done, service = pushed(folder, certificate)
    assert (done.exit_code, done.stdout) == (0, "delivered: the push service took it\n")
    assert service.pushed == [CheckPush()]
    assert service.refused == []
    done, _ = pushed(folder, certificate, "--json")
    assert json.loads(done.stdout)["outcome"] == "delivered"


@pytest.mark.parametrize(
    ("status", "outcome"), [(410, "dead"), (404, "dead"), (503, "later"), (400, "failed")]
)
def test_a_push_that_is_refused(
    folder: Folder, certificate: Certificate, status: int, outcome: str
) -> None:
    answer = Response(status_code=status)
    done, _ = pushed(folder, certificate, "--json", answer=answer)
    assert done.exit_code == 1
    assert json.loads(done.stdout)["outcome"] == outcome
    done, _ = pushed(folder, certificate, answer=Response(status_code=status))
    assert done.stdout.startswith(f"{outcome}: ")


def test_a_value_may_begin_with_a_minus(folder: Folder) -> None:
    _, _, key = texts_of(WEB_DEVICE)
    for auth in ("-" + "A" * 21, "--" + "A" * 20):
        done = folder.run("push-test", "https://localhost:1/x", auth, key)
        assert done.exit_code == 1, done.stderr
        assert done.stdout.startswith("failed: ")


def test_a_push_service_that_is_away(folder: Folder, certificate: Certificate) -> None:
    _, auth, key = texts_of(WEB_DEVICE)
    done = folder.run("push-test", "https://localhost:1/x", auth, key)
    assert done.exit_code == 1
    assert done.stdout.startswith("failed: ")


def test_a_push_to_a_private_address_is_not_made(folder: Folder) -> None:
    _, auth, key = texts_of(WEB_DEVICE)
    done = folder.run("push-test", "https://127.0.0.1/x", auth, key)
    assert done.exit_code == 1
    assert done.stdout.startswith("failed: ")


@pytest.mark.parametrize(
    ("place", "text"), [(0, "http://push.example.org/x"), (1, "AAAA"), (1, "!"), (2, "BBBB")]
)
def test_what_is_no_subscription_is_misuse(folder: Folder, place: int, text: str) -> None:
    arguments = list(texts_of(WEB_DEVICE))
    arguments[place] = text
    done = folder.run("push-test", *arguments)
    assert done.exit_code == 2
    assert WEB_DEVICE.path not in done.output
