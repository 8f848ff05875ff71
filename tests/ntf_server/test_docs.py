"""What ``docs/ntf.md`` shows works when it is pasted."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from headgate.ntf_server.config import ADMIN_PORT, ListenNtf, load_ntf_config
from headgate.pipeline.tables.tables import TABLES
from tests.support.repository import DOCS

TEXT = (DOCS / "ntf.md").read_text()
PORTS = {"HEADGATE_LISTEN__NTF__PORT": ListenNtf().port, "HEADGATE_ADMIN__PORT": ADMIN_PORT}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    """All of them in one shell, at other ports; of an address the page has the beginning."""
    shown = "".join(blocks("console"))
    commands = [line.removeprefix("$ ") for line in shown.splitlines() if line.startswith("$ ")]
    script = "".join(f"echo {shlex.quote(f'$ {each}')}\n{each}\n" for each in commands)
    binaries = str(Path(sys.executable).parent)
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    done = subprocess.run(
        ["bash", "-eu", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"],
        cwd=tmp_path,
        env={
            **os.environ,
            **{name: str(port) for name, port in ports.items()},
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    printed = re.sub(r"ntf://\S+", "ntf://...", done.stdout).replace(str(tmp_path), "/srv/push")
    # The machine of the tests may be a container, that of the page is none.
    printed = re.sub(r"(ok|warn) +container .*\n", "", printed)
    for name, port in PORTS.items():
        printed = printed.replace(f"port {ports[name]}:", f"port {port}:")
    assert printed == shown


def test_the_files_of_the_page_are_right(tmp_path: Path) -> None:
    for text in blocks("toml"):
        (tmp_path / "ntf.toml").write_text(text)
        load_ntf_config(tmp_path / "ntf.toml", {})


def test_the_page_names_what_is_there() -> None:
    assert f"port {ADMIN_PORT}," in TEXT
    sentence = re.search(r"makes the tables (.*?) of it", TEXT, re.DOTALL)
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence[1])) <= set(TABLES)
