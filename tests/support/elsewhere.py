"""Worlds that are played in other processes, where sets of names have another order."""

from __future__ import annotations

import os
import subprocess
import sys


def traces_elsewhere(module: str, seeds: int = 8) -> set[bytes]:
    """The traces of some seeds, as `play` of a module gives them in two processes: one if they are
    alike."""
    script = (
        f"from {module} import play\n"
        f"print('\\n'.join(line for seed in range({seeds}) for line in play(seed).trace.lines()))"
    )
    return {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": number},
            check=True,
            capture_output=True,
        ).stdout
        for number in ("1", "2")
    }
