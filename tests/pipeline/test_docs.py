"""The examples of docs/pipeline.md print what the page says."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.pipeline.source import feed, options
from tests.support.repository import DOCS, ROOT

PAGE = DOCS / "pipeline.md"
TEXT = PAGE.read_text()


def examples() -> Iterator[tuple[str, str]]:
    """Commands and what they print, in order."""
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            if command.endswith("<<'END'"):
                document, _, printed = printed.partition("END\n")
                command = f"{command}\n{document}END"
            yield command, printed


@pytest.mark.serial
@pytest.mark.timeout(1800)
def test_every_example_prints_what_the_page_says(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HEADGATE_ADMIN__PORT": "0",
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert "WARN" not in done.stderr
        return done.stdout

    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command, printed in examples():
        assert run("bash", "-c", command) == printed, command
    program = "\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    assert run(sys.executable, "-c", program).splitlines()[-1] == "1"


def test_every_link_leads_somewhere() -> None:
    for page in (PAGE, PAGE.with_name("clusters.md")):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), target


def test_every_option_of_the_source_is_on_the_page() -> None:
    sources = "".join(Path(inspect.getfile(it)).read_text() for it in (options, feed))
    asked = set(re.findall(r'\bgiven(?:\.get\(|\[)"(\w+)"', sources))
    told = TEXT.partition("Options of the source:")[2].partition("`df.write")[0]
    assert asked
    assert asked - {name.lower() for name in re.findall(r"`(\w+)`", told)} == set()
