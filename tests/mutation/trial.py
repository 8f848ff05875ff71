"""One mutant and the tests of its rule, in a process of its own that begins with pytest loaded."""

from __future__ import annotations

import compileall
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import pytest

from tests.mutation.draw import Mutant
from tests.mutation.reach import PYTEST, SECONDS_MAX, SOURCE

CPU_SECONDS_LEAST = 6
CPU_FACTOR = 2
"""A mutant may compute for so many times as long as its tests took while their lines were counted,
and CPU_SECONDS_LEAST, however busy the machine is."""
WAIT_SECONDS_MAX = 300
"""What waits for longer is as endless as what computes for longer."""

LIBRARIES = (
    "asyncio",
    "cryptography.x509",
    "hiredis",
    "hypothesis.stateful",
    "msgspec",
    "nacl.bindings",
    "OpenSSL.SSL",
    "prometheus_client",
    "pyarrow.parquet",
    "pytest_asyncio.plugin",
    "pytest_timeout",
    "starlette.applications",
    "uvicorn",
)
"""What tests load of others; it is loaded once."""

ALONE = (
    *("-p", "no:cov", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
"""What pytest is told in such a process; its plugins are loaded before it is."""


class Verdict(StrEnum):
    KILLED = "killed"
    ENDLESS = "endless"
    """Killed as well: what ended before does not any longer."""
    SURVIVED = "survived"


def load() -> None:
    """Do once what would be done for each mutant: load libraries, compile what is not changed."""
    compileall.compile_dir(SOURCE, quiet=1)
    for name in LIBRARIES:
        importlib.import_module(name)
    assert "headgate" not in sys.modules, "the program is loaded when it has been changed"


def is_unharmed(tests: Iterable[str]) -> bool:
    """Whether tests pass here as long as nothing is changed."""
    named = sorted(tests)
    return not named or _run(str(SOURCE.parent), named) == pytest.ExitCode.OK


def attempt(mutant: Mutant, *, slowly: bool = False, source: Path = SOURCE) -> Verdict:
    """Whether a test of the rule fails, or does not end, on the changed program: a quick one that
    reaches the line, or slowly, one of the others."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(source, Path(folder) / "headgate")
        module = Path(folder) / "headgate" / mutant.path
        module.write_text(mutant.change.apply(module.read_text()))
        for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*"):
            compiled.unlink()
        if not slowly:
            limit = int(CPU_SECONDS_LEAST + CPU_FACTOR * mutant.seconds)
            return _try(folder, mutant.tests, limit)
        verdict = _try(folder, mutant.slow, WAIT_SECONDS_MAX)
    is_killed = verdict is not Verdict.SURVIVED and is_unharmed(mutant.slow)
    return verdict if is_killed else Verdict.SURVIVED


def _try(package: str, tests: tuple[str, ...], cpu_limit: int) -> Verdict:
    code = _run(
        package, ["-x", *tests], cpu_limit=cpu_limit, limit=max(WAIT_SECONDS_MAX, cpu_limit)
    )
    if code is None or code == -signal.SIGXCPU:
        return Verdict.ENDLESS
    return Verdict.SURVIVED if code == pytest.ExitCode.OK else Verdict.KILLED


def _run(
    package: str,
    arguments: list[str],
    *,
    cpu_limit: int = SECONDS_MAX,
    limit: float = SECONDS_MAX,
) -> int | None:
    """How pytest ended, with headgate from another folder, or None if it did not."""
    child = os.fork()
    if child == 0:
        _be_pytest(package, arguments, cpu_limit)
    code = _wait(child, limit)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    return code


def _wait(child: int, limit: float) -> int | None:
    over = time.monotonic() + limit
    while time.monotonic() < over:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def _be_pytest(package: str, arguments: list[str], cpu_limit: int) -> None:
    """Does not return."""
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit + 5))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        sys.path.insert(0, package)
        sys.dont_write_bytecode = False
        os.environ["PYTHONPATH"] = package
        code = pytest.main([*PYTEST, *ALONE, *arguments])
    finally:
        os._exit(code)
