"""The wheel and the source archive, the same bytes whoever builds them.

`python -m tools.packages.distribution FOLDER` builds both. Times in them are those of the last
commit, so that two builds of one commit are equal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(folder: Path, *targets: str) -> list[Path]:
    """Build targets of hatchling, wheel and sdist if none is named; the files, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [part for target in targets or ("sdist", "wheel") for part in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder.absolute()), *chosen]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}
    nowhere = subprocess.DEVNULL
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=nowhere, stderr=nowhere)
    return sorted(each for each in folder.iterdir() if each.suffix in (".whl", ".gz"))


def epoch() -> int:
    """When the last commit was made; where there are no commits, as in a source archive, 1980."""
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else 315_532_800


if __name__ == "__main__":
    for path in build(Path(sys.argv[1])):
        print(f"{path} {path.stat().st_size:,} bytes")
