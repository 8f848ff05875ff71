"""`headgate pub` and `headgate sub`, against a router in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.server.config.sections import Tls
from tests.support.bmq_client import Rig
from tests.support.bmq_router import Router
from tests.support.certificates import make_certificate
from tests.support.resp_servers import Server, start_headgate

DOMAINS = """
[domains.orders]
mode = "priority"
[domains.fan]
mode = "fanout"
apps = ["audit"]
"""
ORDERS = "bmq://orders/incoming"


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_headgate(tmp_path_factory.mktemp("router")) as server:
        yield server


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a router with domains."""
    router = Router(tmp_path_factory.mktemp("queues"), DOMAINS)
    router.start()
    yield router.broker.removeprefix("tcp://")
    router.stop()
    assert "Traceback" not in router.log


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from headgate.cli import main; main()", *arguments]


def run(*arguments: str, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*arguments),
        input=stdin,
        capture_output=True,
        timeout=60,
        env={**os.environ, **environ},
    )


def address(router: Server) -> str:
    return "{}:{}".format(*router.address)


def test_a_message_goes_from_pub_to_sub(router: Server) -> None:
    where = ("--address", address(router))
    with subprocess.Popen(
        command("sub", *where, "--count", "2", "--json", "--pattern", "news.*"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as listening:
        assert listening.stderr is not None
        assert listening.stderr.readline() == b"subscribed to news.*\n"
        assert run("pub", *where, "news.it", "ciao").stdout == b"1\n"
        assert run("pub", *where, "--json", "news.fr", stdin=b"salut\xff").stdout == (
            b'{"channel": "news.fr", "receivers": 1}\n'
        )
        output, _ = listening.communicate(timeout=60)
    assert listening.returncode == 0
    assert [json.loads(line) for line in output.splitlines()] == [
        {"channel": "news.it", "body": "ciao", "pattern": "news.*"},
        {"channel": "news.fr", "body": "salut\\xff", "pattern": "news.*"},
    ]


def test_a_line_for_people_is_channel_and_body(router: Server) -> None:
    where = ("--address", address(router))
    with subprocess.Popen(
        command("sub", *where, "--count", "1", "a", "b"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as listening:
        assert listening.stderr is not None
        listening.stderr.readline()
        run("pub", *where, "b", "hello")
        output, _ = listening.communicate(timeout=60)
    assert output == b"b: hello\n"


def test_nobody_there_says_what_to_look_at() -> None:
    ended = run("pub", "--address", "127.0.0.1:1", "c", "x")
    assert ended.returncode == 4
    assert b"no router answers on 127.0.0.1:1" in ended.stderr
    assert b"[listen.resp]" in ended.stderr


def test_an_address_that_is_none_is_refused() -> None:
    ended = run("pub", "--address", "nowhere", "c", "x")
    assert (ended.returncode, b"write it as 127.0.0.1:6379" in ended.stderr) == (1, True)


def test_the_address_and_the_password_are_those_of_the_configuration(tmp_path: Path) -> None:
    with start_headgate(tmp_path, password="open sesame") as server:
        config = tmp_path / "client.toml"
        host, port = server.address
        config.write_text(
            f'[listen.resp]\nhost = "{host}"\nport = {port}\npassword = "open sesame"\n'
        )
        assert run("pub", "--config", str(config), "c", "x").stdout == b"0\n"
        config.write_text(f'[listen.resp]\nhost = "{host}"\nport = {port}\npassword = "wrong"\n')
        ended = run("pub", "--config", str(config), "c", "x")
        assert (ended.returncode, b"WRONGPASS" in ended.stderr) == (5, True)
        assert b"wrong" not in ended.stderr.replace(b"WRONGPASS", b"")


def said(ended: subprocess.CompletedProcess[bytes]) -> tuple[int, bytes]:
    """The exit code and the one line of a command that failed."""
    assert ended.stderr.startswith(b"headgate: ")
    assert ended.stderr.count(b"\n") == 1
    return ended.returncode, ended.stderr


def test_who_asks_is_said_by_options_the_environment_or_the_address(tmp_path: Path) -> None:
    with start_headgate(tmp_path, password="open sesame") as server:
        host, port = server.address
        where = ("--address", f"{host}:{port}")
        code, line = said(run("pub", *where, "c", "x"))
        assert (code, b"NOAUTH" in line) == (5, True)
        (tmp_path / "password").write_text("open sesame\n")
        (tmp_path / "wrong").write_text("a guess\n")
        given = ("--user", "default", "--password-file", str(tmp_path / "password"))
        assert run("pub", *where, *given, "c", "x").stdout == b"0\n"
        assert run("pub", *where, "c", "x", HEADGATE_PASSWORD="open sesame").stdout == b"0\n"
        url = f"redis://default:open%20sesame@{host}:{port}"
        assert run("pub", "--address", url, "c", "x").stdout == b"0\n"
        assert run("pub", "c", "x", HEADGATE_RESP=url).stdout == b"0\n"
        wrong = ("--password-file", str(tmp_path / "wrong"))
        code, line = said(run("pub", *where, *wrong, "c", "x"))
        assert (code, b"guess" in line) == (5, False)
        code, line = said(run("pub", "--address", f"redis://:se%20same@{host}:x", "c", "x"))
        assert (code, b"same" in line) == (1, False)
        code, line = said(run("pub", "--address", f"http://{host}:{port}", "c", "x"))
        assert (code, b"http:// is no address of a router" in line) == (1, True)
        code, line = said(run("pub", *where, "--password-file", str(tmp_path / "no"), "c", "x"))
        assert code == 1


def test_channels_behind_tls_are_reached_and_mistakes_are_one_line(tmp_path: Path) -> None:
    certificate, _ = make_certificate(tmp_path)
    router = Router(tmp_path, "[listen.resp]\nport = 0\n[listen.resp.tls]\n")
    router.start()
    try:
        ready = json.loads((tmp_path / "ready.json").read_text())["resp"]
        at = f"{ready['host']}:{ready['port']}"
        trusted = str(certificate)
        assert run("pub", "--address", at, "--ca", str(certificate), "c", "x").stdout == b"0\n"
        assert (
            run("pub", "--address", at, "--tls", "c", "x", SSL_CERT_FILE=trusted).stdout == b"0\n"
        )
        assert (
            run("pub", "--address", f"rediss://{at}", "c", "x", SSL_CERT_FILE=trusted).stdout
            == b"0\n"
        )
        code, line = said(run("pub", "--address", at, "c", "x"))
        assert (code, b"--tls, --ca or rediss://" in line) == (4, True)
        code, line = said(run("pub", "--address", at, "--tls", "c", "x"))
        assert (code, b"no TLS with" in line) == (4, True)
        code, line = said(run("pub", "--address", at, "--ca", str(tmp_path / "no"), "c", "x"))
        assert (code, b"the certificate" in line) == (1, True)
        bmq = router.broker.removeprefix("tcp://")
        code, line = said(run("pub", "--address", bmq, "c", "x"))
        assert code == 4
        code, line = said(run("pub", "--address", bmq, "--tls", "c", "x"))
        assert code == 4
    finally:
        router.stop()


# Queues.


def test_a_message_stays_in_its_queue_until_it_is_printed(queues: str) -> None:
    where = ("--address", queues)
    posted = run("pub", *where, ORDERS, "a table", "--property", "n=1", "--property", "kind=slow")
    assert (posted.returncode, posted.stderr) == (0, b"")
    told = json.loads(run("pub", *where, "--json", ORDERS, stdin=b"salut\xff").stdout)
    assert told["queue"] == ORDERS
    ended = run("sub", *where, "--count", "2", "--json", ORDERS)
    assert (ended.returncode, ended.stderr) == (0, f"subscribed to {ORDERS}\n".encode())
    first, second = (json.loads(line) for line in ended.stdout.splitlines())
    assert first == {
        "queue": ORDERS,
        "guid": posted.stdout.decode().strip(),
        "body": "a table",
        "properties": {"n": 1, "kind": "slow"},
    }
    assert second == {**told, "body": "salut\\xff", "properties": {}}
    run("pub", *where, ORDERS, "last", "--property", "raw:binary=ff", "--property", "ok=true")
    ended = run("sub", *where, "--count", "1", ORDERS)
    assert ended.stdout == f"{ORDERS}: last [raw=ff ok=true]\n".encode()


def test_where_picks_messages_and_leaves_the_others(queues: str) -> None:
    where, uri = ("--address", queues), "bmq://orders/picked"
    for n in range(4):
        run("pub", *where, uri, str(n), "--property", f"n={n}")
    ended = run(
        "sub", *where, "--json", "--count", "2", "--where", "n == 1", "--where", "n > 2", uri
    )
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [(row["body"], row["where"]) for row in rows] == [("1", "n == 1"), ("3", "n > 2")]
    ended = run("sub", *where, "--count", "2", "--priority", "3", uri)
    assert ended.stdout == f"{uri}: 0 [n=0]\n{uri}: 2 [n=2]\n".encode()


def test_an_app_is_read_and_reading_ends_with_ctrl_c(queues: str) -> None:
    where, uri = ("--address", queues), "bmq://fan/parcels"
    run("pub", *where, uri, "one")
    with subprocess.Popen(
        command("sub", *where, f"{uri}?id=audit"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Who runs the tests in the background may have made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as reading:
        assert reading.stdout is not None
        assert reading.stdout.readline() == f"{uri}?id=audit: one\n".encode()
        run("pub", *where, uri, "two")
        assert reading.stdout.readline() == f"{uri}?id=audit: two\n".encode()
        reading.send_signal(signal.SIGINT)
        _, errors = reading.communicate(timeout=60)
    assert (reading.returncode, errors) == (130, f"subscribed to {uri}?id=audit\n".encode())
    run("pub", *where, uri, "three")
    ended = run("sub", *where, "--count", "1", f"{uri}?id=audit")
    assert ended.stdout == f"{uri}?id=audit: three\n".encode()


def test_the_address_of_queues_comes_from_the_environment_or_the_configuration(
    queues: str, tmp_path: Path
) -> None:
    uri = "bmq://orders/found"
    assert len(run("pub", uri, "x", HEADGATE_BMQ=queues).stdout) == 33
    config = tmp_path / "client.toml"
    host, _, port = queues.partition(":")
    config.write_text(f'[listen.bmq]\nhost = "{host}"\nport = {port}\n')
    ended = run("sub", "--config", str(config), "--count", "1", uri)
    assert ended.stdout == f"{uri}: x\n".encode()
    ended = run("pub", "--address", "127.0.0.1:1", uri, "x", HEADGATE_BMQ=queues)
    assert (ended.returncode, b"[listen.bmq]" in ended.stderr) == (4, True)


async def test_queues_behind_tls_are_reached_with_the_certificate_of_the_configuration(
    tmp_path: Path,
) -> None:
    certificate, key = make_certificate(tmp_path)
    rig = Rig(tmp_path, tls=Tls(certificate=certificate.name, key=key.name))
    await rig.start()
    config = tmp_path / "client.toml"
    config.write_text(
        f'directory = "{tmp_path}"\n[listen.bmq]\nport = {rig.port}\n'
        f'[listen.bmq.tls]\ncertificate = "{certificate.name}"\nkey = "{key.name}"\n'
    )
    posted = await asyncio.to_thread(run, "pub", "--config", str(config), ORDERS, "x")
    await rig.stop()
    assert (posted.returncode, len(posted.stdout)) == (0, 33)


def test_the_address_of_channels_comes_from_the_environment(router: Server) -> None:
    assert run("pub", "c", "x", HEADGATE_RESP=address(router)).stdout == b"0\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pub", "bmq://nowhere/q", "x"), b"nowhere"),
        (("pub", "bmq://orders", "x"), b"names no queue"),
        (("pub", ORDERS, ""), b"has a body"),
        (("sub", "bmq://fan/parcels"), b"app"),
    ],
)
def test_what_is_refused_is_said_in_a_line(
    queues: str, arguments: tuple[str, ...], said: bytes
) -> None:
    ended = run(*arguments, HEADGATE_BMQ=queues)
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"headgate: ")
    assert said in ended.stderr
    assert ended.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("expression", "picture"),
    [("n = 1", b"\nn = 1\n  ^\n"), ("n >", b"\nn >\n  ^\n"), ("", b"\n^\n")],
)
def test_a_wrong_expression_is_shown_with_the_place(expression: str, picture: bytes) -> None:
    ended = run("sub", ORDERS, "--where", expression)
    assert ended.returncode == 2
    assert picture in ended.stderr


def test_an_expression_that_the_shell_took_apart_is_recognised() -> None:
    for names in ((ORDERS,), ()):
        ended = run("sub", *names, "--where", "kind", "==", "express")
        assert ended.returncode == 2
        assert b"quote it: --where 'kind == \"express\"'" in ended.stderr


def test_a_queue_without_its_scheme_is_a_channel_and_that_is_said(router: Server) -> None:
    done = run("pub", "orders/incoming", "x", HEADGATE_RESP=address(router))
    assert done.stdout == b"0\n"
    assert done.stderr.endswith(b"; the queue would be bmq://orders/incoming\n")
    assert run("pub", "news", "x", HEADGATE_RESP=address(router)).stderr == b""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sub", "--pattern", ORDERS), b"--pattern is for channels"),
        (("sub", ORDERS, "news"), b"a queue is read alone"),
        (("sub", ORDERS, "bmq://orders/other"), b"a queue is read alone"),
        (("sub", "--where", "n > 1", "news"), b"--where is for queues"),
        (("sub", "--priority", "1", "news"), b"--priority is for queues"),
        (("pub", "--property", "n=1", "news", "x"), b"--property is for queues"),
        (("pub", "--property", "n", ORDERS, "x"), b"NAME=VALUE"),
        (("pub", "--user", "me", ORDERS, "x"), b"are for channels"),
    ],
)
def test_what_makes_no_sense_together_is_misuse(arguments: tuple[str, ...], said: bytes) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
