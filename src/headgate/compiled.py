"""Compiled parts of Headgate, chosen once, when they are imported.

A compiled part is a module in C beside its twin in Python. It exists if Headgate was installed with
a compiler, and is used unless `HEADGATE_PURE` is set. A part built from another source than the one
beside it is not used: it might behave differently.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

VARIABLE = "HEADGATE_PURE"
"""If it is set, everything is pure Python."""
PARTS = (
    "headgate.core.channels._passes",
    "headgate.server.net._pump",
    "headgate.wire.resp._plain",
    "headgate.wire.resp.codec._requests",
)

HEADER = re.compile(rb'#include "(.+)"')

T = TypeVar("T", bound=type[Any] | Callable[..., Any])

_why_not: dict[str, str] = {}


def part(module: str, name: str, pure: T) -> T:
    """The compiled twin of an object, or the object itself."""
    found = _loaded(module)
    return pure if found is None else cast("T", getattr(found, name))


def described() -> str:
    """How this process runs: compiled, or pure and why."""
    for module in PARTS:
        _loaded(module)
    reasons = dict.fromkeys(_why_not.values())
    return f"pure ({'; '.join(reasons)})" if reasons else "compiled"


def is_pure() -> bool:
    """Whether some part of this process is not compiled."""
    return described() != "compiled"


def digest_of(source: Path) -> str:
    """The digest of a source and its headers, which the compiled part has too."""
    text = source.read_bytes()
    headers = [(source.parent / name.decode()).read_bytes() for name in HEADER.findall(text)]
    return hashlib.sha256(b"".join((text, *headers))).hexdigest()[:16]


@cache
def _loaded(module: str) -> ModuleType | None:
    if os.environ.get(VARIABLE):
        _why_not[module] = f"{VARIABLE} is set"
        return None
    try:
        found = import_module(module)
    except ImportError:
        _why_not[module] = "not built: no C compiler or no Python headers when it was installed"
        return None
    source = Path(__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".c")
    if source.exists() and digest_of(source) != found.SOURCE:
        _why_not[module] = "built of another source: install it again (make setup)"
        return None
    return found
