"""Fetch the files of others that the page is served with, from npm, at exact versions.

``make vendor`` runs this after a version below was changed; nothing else needs npm. The tests
compare what lies in the tree with these digests.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENDOR = ROOT / "src" / "headgate" / "server" / "desk" / "static" / "vendor"


@dataclass(frozen=True)
class Vendored:
    """A file out of a package, as it lies beside our own."""

    package: str
    version: str
    member: str
    """Where it is inside the package."""
    sha256: str

    @property
    def path(self) -> Path:
        name = Path(self.member).name
        return VENDOR / (name if name != "LICENSE" else f"{self.package}.LICENSE")


FILES = (
    Vendored(
        "uplot",
        "1.6.32",
        "dist/uPlot.iife.min.js",
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    ),
    Vendored(
        "uplot",
        "1.6.32",
        "dist/uPlot.min.css",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
    Vendored(
        "uplot",
        "1.6.32",
        "LICENSE",
        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    ),
)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def fetched() -> Iterator[tuple[Vendored, bytes]]:
    """Each file with its bytes, out of what npm hands over."""
    for package, version in sorted({(file.package, file.version) for file in FILES}):
        with tempfile.TemporaryDirectory() as folder:
            command = ["npm", "pack", "--silent", f"{package}@{version}"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            [archive] = Path(folder).glob("*.tgz")
            with tarfile.open(archive) as packed:
                for file in FILES:
                    if (file.package, file.version) == (package, version):
                        member = packed.extractfile(f"package/{file.member}")
                        assert member is not None, f"{file.member} is a file of {package}"
                        yield file, member.read()


def main() -> int:
    VENDOR.mkdir(exist_ok=True)
    wrong = []
    for file, data in fetched():
        found = digest(data)
        if found == file.sha256:
            file.path.write_bytes(data)
        else:
            wrong.append(f"{file.package} {file.version} {file.member} has {found}")
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print("Not taken. If you meant to change them, write these digests down.", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
