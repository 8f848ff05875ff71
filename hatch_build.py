"""Puts the pages of the docs into the wheel, for ``headgate docs``, and builds what is in C.

``python hatch_build.py`` builds what is in C beside its sources: it is what an installation from a
checkout does, for who changed a source. Without a compiler or Python's headers nothing is built,
and Headgate runs as pure Python: that is a line of warning and never a failure.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called as a program, where only Headgate is
    BuildHookInterface = object  # type: ignore[assignment,misc]

PAGES = ("*.md", "design/*.md", "reference/*.md")
"""Of the folder docs. What only developers read, and pictures, stay out."""
OPTIONS = ("-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")
QUIET = ("-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-cast-function-type")
"""What CPython's own way to write extensions is warned of."""
BUILD_SECONDS = 100
HEADER = re.compile(rb'#include "(.+)"')


def sources(root: Path) -> list[Path]:
    return sorted((root / "src" / "headgate").rglob("_*.c"))


def compiled_name(source: Path) -> Path:
    """Where Python looks for what was built of it."""
    return source.with_name(source.stem + str(sysconfig.get_config_var("EXT_SUFFIX")))


def build(root: Path) -> list[Path]:
    """What could be built, beside its sources: all, or nothing and a warning."""
    made: list[Path] = []
    for source in sources(root):
        target = compiled_name(source)
        try:
            _compile(source, target)
        except (OSError, subprocess.SubprocessError) as failed:
            text = str(failed)
            if isinstance(failed, subprocess.SubprocessError):
                text = str(getattr(failed, "stderr", None) or "the compiler failed")
            first = text.strip().splitlines()[0]
            print(f"warning: Headgate runs as pure Python, {source.name}: {first}", file=sys.stderr)
            for each in made:
                each.unlink()
            return []
        made.append(target)
    return made


def _compile(source: Path, target: Path) -> None:
    compiler = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    digest = _digest(source)
    # In another file first: a router may be running with the old one.
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    command = [
        *shlex.split(compiler),
        *OPTIONS,
        *QUIET,
        f'-DHEADGATE_SOURCE="{digest}"',
        f"-I{sysconfig.get_path('include')}",
        f"-I{sysconfig.get_path('platinclude')}",
        str(source.name),
        "-o",
        str(partial),
    ]
    try:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            cwd=source.parent,  # no path of this machine gets into it
            timeout=BUILD_SECONDS,
        )
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _digest(source: Path) -> str:
    """As `headgate.compiled` has it: of a source and its headers."""
    text = source.read_bytes()
    headers = [(source.parent / name.decode()).read_bytes() for name in HEADER.findall(text)]
    return hashlib.sha256(b"".join((text, *headers))).hexdigest()[:16]


class HeadgateHook(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling at each build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        made = [] if os.environ.get("HEADGATE_PURE") else build(root)
        if version == "editable":  # the pages are read where they are, and so is what was built
            return
        if made:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
        for path in made:
            name = path.relative_to(root / "src").as_posix()
            build_data["force_include"][str(path)] = name
        docs = root / "docs"
        for pattern in PAGES:
            for page in sorted(docs.glob(pattern)):
                name = f"headgate/docs/{page.relative_to(docs).as_posix()}"
                build_data["force_include"][str(page)] = name


if __name__ == "__main__":
    for each in build(Path(__file__).parent):
        print(each.relative_to(Path(__file__).parent))
