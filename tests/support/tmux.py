"""A terminal whose screen can be read."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

NO_TMUX = pytest.mark.skipif(shutil.which("tmux") is None, reason="make peers installs tmux")


class Tmux:
    """A terminal of 110 columns and 32 lines."""

    def __init__(self, folder: Path, environ: Mapping[str, str], command: str) -> None:
        self._base = ["tmux", "-S", str(folder / "tmux.sock"), "-f", "/dev/null"]
        self._environ = environ
        self.run("new-session", "-d", "-x", "110", "-y", "32", command)

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [*self._base, *words],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout

    def screen(self, until: Callable[[str], bool]) -> str:
        """What is on the screen, as soon as it is what is waited for."""
        deadline = time.monotonic() + 60
        while True:
            shown = self.run("capture-pane", "-p")
            if until(shown):
                return shown
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)
