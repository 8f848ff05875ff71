"""Sockets that come from whoever started the process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.server.net import passed_sockets as module
from headgate.server.net.passed_sockets import PassedSockets

CHILD = """
import os, sys
os.environ["LISTEN_PID"] = sys.argv[1] if len(sys.argv) > 1 else str(os.getpid())
from headgate.server.net.listener import bind
from headgate.server.net.passed_sockets import passed_sockets
print(passed_sockets().names)
with bind("listen.resp", "127.0.0.1", 0) as listening:
    print(listening.getsockname()[1], listening.fileno(), listening.get_inheritable())
print(passed_sockets().names)
"""

ANEW = """
import os, sys
os.environ["LISTEN_PID"] = str(os.getpid())
from headgate.server.net.listener import bind
from headgate.server.net.passed_sockets import passed_sockets
listening = bind("listen.resp", "127.0.0.1", 0)
print(listening.getsockname()[1], os.getpid(), flush=True)
if sys.argv[-1] != "anew":
    passed_sockets().pass_on()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], "anew"])
"""


def passing(monkeypatch: pytest.MonkeyPatch, **sockets: socket.socket) -> PassedSockets:
    """As a process that has these sees them, wherever their descriptors begin here."""
    first = min((each.fileno() for each in sockets.values()), default=3)
    monkeypatch.setattr(module, "FIRST_DESCRIPTOR", first)
    names = {each.fileno(): name for name, each in sockets.items()}
    listed = [names.get(number, "") for number in range(first, max(names, default=2) + 1)]
    environ = {
        "LISTEN_PID": str(os.getpid()),
        "LISTEN_FDS": str(len(listed)),
        "LISTEN_FDNAMES": ":".join(listed),
    }
    return PassedSockets(environ)


def run_child(*arguments: str, code: str = CHILD) -> tuple[list[str], list[int]]:
    """Start a process with two sockets where systemd puts them; what it prints, and their ports."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        ports = [each.getsockname()[1] for each in made]

        # Copied out of the way first, as one may lie where the other is to go.
        high = [os.dup2(each.fileno(), 200 + n) for n, each in enumerate(made)]
        script = 'exec 3<&200 4<&201 200<&- 201<&-; exec "$@"'
        try:
            done = subprocess.run(
                ["bash", "-c", script, "bash", sys.executable, "-c", code, *arguments],
                env={**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "admin:resp"},
                pass_fds=high,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        finally:
            for each in high:
                os.close(each)
    return done.stdout.splitlines(), ports


def test_a_listener_takes_the_socket_of_its_name() -> None:
    printed, (_, resp) = run_child()
    assert printed == ["['admin', 'resp']", f"{resp} 4 False", "['admin']"]


def test_sockets_for_another_process_are_left_alone() -> None:
    printed, ports = run_child("1")
    names, bound, after = printed
    assert names == after == "[]"
    assert int(bound.split()[0]) not in ports


def test_a_process_that_becomes_another_program_still_has_them() -> None:
    """As a router does that has lost its store and waits for it."""
    (first, second), (_, resp) = run_child(code=ANEW)
    assert first == second
    assert first.split()[0] == str(resp)


def test_each_socket_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    passed = passing(monkeypatch, smp=listening)
    assert passed.take("listen.resp", "127.0.0.1") is None
    taken = passed.take("listen.smp", "127.0.0.1")
    assert taken is not None
    assert taken.getsockname() == listening.getsockname()
    assert passed.take("listen.smp", "127.0.0.1") is None
    listening.detach()
    taken.close()


def test_a_socket_that_is_reached_from_further_than_its_section_says_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What clients have to show depends on the host of the section."""
    listening = socket.create_server(("0.0.0.0", 0))
    passed = passing(monkeypatch, bmq=listening)
    listening.detach()
    with pytest.raises(ConfigError, match=r"\[listen.bmq\] listens on 0.0.0.0, beyond loopback"):
        passed.take("listen.bmq", "127.0.0.1")


def test_a_socket_beyond_loopback_is_taken_where_the_section_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listening = socket.create_server(("0.0.0.0", 0))
    passed = passing(monkeypatch, bmq=listening)
    taken = passed.take("listen.bmq", "0.0.0.0")
    assert taken is not None
    listening.detach()
    taken.close()


def test_what_does_not_listen_on_tcp_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unix.bind(str(tmp_path / "socket"))
    unix.listen()
    deaf = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    for each in (unix, deaf):
        passed = passing(monkeypatch, admin=each)
        each.detach()
        with pytest.raises(ConfigError, match=r"\[admin\] does not listen on TCP"):
            passed.take("admin", "127.0.0.1")


def test_what_is_no_socket_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    monkeypatch.setattr(module, "FIRST_DESCRIPTOR", file)
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "admin"}
    with pytest.raises(ConfigError, match=r"\[admin\] is no socket"):
        PassedSockets(environ).take("admin", "127.0.0.1")
    os.close(file)
