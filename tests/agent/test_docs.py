"""What ``docs/agent.md`` shows works when it is pasted."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from headgate.server.config.sections import ListenSmp
from tests.support.agent_router import SmpProcess
from tests.support.repository import DOCS, ROOT

TEXT = (DOCS / "agent.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    """All of them in one shell; of an address the page has the beginning."""
    shown = "".join(blocks("console"))
    commands = [line.removeprefix("$ ") for line in shown.splitlines() if line.startswith("$ ")]
    script = "".join(f"echo {shlex.quote(f'$ {each}')}\n{each}\n" for each in commands)
    router = SmpProcess(tmp_path)
    router.start()
    binaries = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        cwd=router.folder,
        env={**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    router.stop()
    assert done.returncode == 0, done.stderr
    assert re.sub(r"^smp://\S+$", "smp://...", done.stdout, flags=re.MULTILINE) == shown


def test_the_router_of_the_page_is_at_the_usual_port() -> None:
    [config] = blocks("toml")
    assert tomllib.loads(config) == {"listen": {"smp": {"port": ListenSmp().port}}}


def test_the_programs_are_those_that_the_tests_run() -> None:
    """See tests/test_examples.py."""
    names = re.findall(r"This is[^`]*`(examples/\w+\.py)`", TEXT)
    programs = blocks("python")
    assert len(names) == len(programs)
    for name, program in zip(names, programs, strict=True):
        assert program in (ROOT / name).read_text()
