"""`headgate pub` and `headgate sub`, against a router in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.resp.server import Server, start_headgate


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_headgate(tmp_path_factory.mktemp("router")) as server:
        yield server


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from headgate.cli import main; main()", *arguments]


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*arguments), input=stdin, capture_output=True, timeout=60)


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
    assert ended.returncode == 1
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
        assert (ended.returncode, b"WRONGPASS" in ended.stderr) == (1, True)
        assert b"wrong" not in ended.stderr.replace(b"WRONGPASS", b"")
