"""redis-cli and redis-benchmark as they come."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.resp_client import encoded
from tests.support.resp_cluster import Cluster
from tests.support.resp_servers import PASSWORD, Dial, Server, eventually

SECONDS = 60


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"this test needs {name} (Debian: apt-get install redis-tools)"
    return found


def cli(server: Server, *arguments: str, text: bytes = b"") -> str:
    """What redis-cli prints. Its input is never a terminal."""
    host, port = server.address
    done = subprocess.run(
        [program("redis-cli"), "-h", host, "-p", str(port), *arguments],
        input=text,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout.decode()


@contextlib.contextmanager
def streaming(server: Server, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A redis-cli that subscribes until it is stopped."""
    host, port = server.address
    with subprocess.Popen(
        [program("redis-cli"), "-h", host, "-p", str(port), *arguments],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


@pytest.fixture(params=[(), ("-3",)], ids=["resp2", "resp3"])
def flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = request.param
    return found


def test_one_command(server: Server, name: str, flags: tuple[str, ...]) -> None:
    """RESP-80."""
    assert cli(server, *flags, "PING") == "PONG\n"
    assert cli(server, *flags, "PUBLISH", name, "x") == "0\n"
    assert cli(server, *flags, "SET", name, "v") == "OK\n"
    assert cli(server, *flags, "GET", name) == "v\n"
    assert cli(server, *flags, "-n", "2", "GET", name) == "\n"
    assert cli(server, *flags, "NOSUCH").startswith("ERR unknown command 'NOSUCH'")


def test_a_script_on_standard_input(server: Server, name: str, flags: tuple[str, ...]) -> None:
    """RESP-22, RESP-80: it asks for the docs of all commands first."""
    script = f'ping\nset {name} "a b"\nget {name}\npubsub numsub {name}\n\npublish {name} x\n'
    expected = f"PONG\nOK\na b\n{name}\n0\n\n0\n"
    assert cli(server, *flags, text=script.encode()) in (expected, expected.replace("\n\n", "\n"))


def test_a_mass_of_commands(server: Server, dial: Dial, name: str) -> None:
    """RESP-9, RESP-80."""
    subscriber = dial(server)
    subscriber.ask("SUBSCRIBE", name)
    data = b"".join(encoded("PUBLISH", name, number) for number in range(1000))
    printed = cli(server, "--pipe", text=data)
    assert "errors: 0, replies: 1000" in printed
    assert len(subscriber.before_fence()) == 1000


@pytest.mark.parametrize("command", ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"])
def test_a_stream_of_messages(
    server: Server, dial: Dial, name: str, flags: tuple[str, ...], command: str
) -> None:
    """RESP-80."""
    publisher = dial(server)
    publish = "SPUBLISH" if command.startswith("SS") else "PUBLISH"
    kind = command.lower()
    with streaming(server, *flags, "--csv", command, name) as process:
        (first,) = lines(process, 1)
        if "subscribe" not in first:  # a line about how to leave
            (first,) = lines(process, 1)
        assert f'"{kind}","{name}",1' in first
        for word in ("hello", "world"):
            assert publisher.ask(publish, name, word) == 1
        message = {"S": "message", "P": "pmessage"}[command[0]]
        message = "smessage" if command.startswith("SS") else message
        for word, line in zip(("hello", "world"), lines(process, 2), strict=True):
            assert f'"{message}"' in line
            assert line.endswith(f'"{name}","{word}"')
    eventually(lambda: publisher.ask(publish, name, "x") == 0, "it is gone")


def test_a_password(guarded: Server, flags: tuple[str, ...]) -> None:
    """RESP-16, RESP-80."""
    assert "NOAUTH" in cli(guarded, "PING")
    printed = cli(guarded, *flags, "--no-auth-warning", "-a", PASSWORD, "PING")
    assert printed == "PONG\n"
    user = ("--user", "default", "--pass", PASSWORD)
    assert cli(guarded, *flags, "--no-auth-warning", *user, "PING") == "PONG\n"


def test_a_client_of_a_cluster_follows(cluster: Cluster, flags: tuple[str, ...]) -> None:
    """RESP-74, RESP-80."""
    for node in cluster.nodes:
        for channel in ("kostas", "foo"):
            assert cli(node, *flags, "-c", "SPUBLISH", channel, "x").endswith("0\n")


def benchmark(server: Server, *arguments: str) -> str:
    host, port = server.address
    done = subprocess.run(
        [program("redis-benchmark"), "-h", host, "-p", str(port), "-q", *arguments],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    printed = (done.stdout + done.stderr).decode().replace("\r", "\n")
    assert done.returncode == 0, printed
    assert "error" not in printed.lower(), printed
    return printed


@pytest.mark.parametrize("pipelined", [(), ("-P", "16")], ids=["one by one", "pipelined"])
def test_a_benchmark_of_publishing(
    server: Server, dial: Dial, name: str, flags: tuple[str, ...], pipelined: tuple[str, ...]
) -> None:
    """RESP-21, RESP-80."""
    subscriber = dial(server)
    subscriber.ask("SUBSCRIBE", name)
    printed = benchmark(server, *flags, "-n", "2000", *pipelined, "publish", name, "hello")
    assert "requests per second" in printed
    frames = subscriber.before_fence()
    assert frames[:1] == [[b"message", name.encode(), b"hello"]]
    assert len(frames) == 2000


def test_a_benchmark_of_pings(server: Server, flags: tuple[str, ...]) -> None:
    """RESP-80: as lines and as arrays."""
    printed = benchmark(server, *flags, "-n", "1000", "-P", "8", "-t", "ping,set,get")
    for test in ("PING_INLINE", "PING_MBULK", "SET", "GET"):
        assert f"{test}: " in printed
