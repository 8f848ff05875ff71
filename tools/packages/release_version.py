"""The version, in every file that has it: `python -m tools.packages.release_version 0.2.0`.

What has been collected in CHANGELOG.md under "Unreleased" becomes that of the version, with the
day of the release. The version of the code itself is in pyproject.toml alone.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION = r"\d+\.\d+\.\d+"
PLACES = {
    "pyproject.toml": rf'(?m)(?<=^version = "){VERSION}(?="$)',
    "packaging/compose/compose.yaml": rf"(?<=image: headgate:){VERSION}",
    "packaging/kubernetes/chart/Chart.yaml": rf"(?m)(?<=ersion: ){VERSION}$",
    "packaging/kubernetes/chart/values.yaml": rf"(?<=image: headgate:){VERSION}",
    "packaging/kubernetes/base/statefulset.yaml": rf"(?<=image: headgate:){VERSION}",
}
"""Where the version is, by file."""
UNRELEASED = "## Unreleased\n"


def versions(root: Path = ROOT) -> dict[str, set[str]]:
    """Those that each file has."""
    return {
        name: set(re.findall(found, (root / name).read_text())) for name, found in PLACES.items()
    }


def released(changes: str, version: str, day: str) -> str:
    """The changes, with those that waited for a version under it."""
    before, heading, after = changes.partition(UNRELEASED)
    waiting = after.partition("\n## ")[0].strip()
    if not heading or not waiting:
        raise ValueError("CHANGELOG.md has nothing under Unreleased: what is there to release?")
    return f"{before}{UNRELEASED}\n## {version}, {day}\n{after}"


def set_version(version: str, day: str, root: Path = ROOT) -> None:
    if re.fullmatch(VERSION, version) is None:
        raise ValueError(f"{version} is not a version such as 0.2.0")
    changes = root / "CHANGELOG.md"
    changes.write_text(released(changes.read_text(), version, day))
    for name, found in PLACES.items():
        path = root / name
        path.write_text(re.sub(found, version, path.read_text()))


if __name__ == "__main__":
    try:
        set_version(sys.argv[1], datetime.now(UTC).date().isoformat())
    except (IndexError, ValueError) as error:
        sys.exit(f"release_version: {error}")
