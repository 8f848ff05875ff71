"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def lazy_names(
    package: str, places: Mapping[str, str], modules: Collection[str] = ()
) -> Callable[[str], object]:
    """The `__getattr__` of a package: each name with the module that has it, and modules below the
    package that can be used without an import of their own."""

    def find(name: str) -> object:
        found: object
        if name in places:
            found = getattr(import_module(f"{package}.{places[name]}"), name)
        elif name in modules:
            found = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, found)
        return found

    return find
