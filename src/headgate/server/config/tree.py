"""The tree of keys that a file of the configuration may have: what each is, and its default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from headgate.core.model.value import EMPTY
from headgate.server.config.kinds import Kind

Path_: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One effective value: its path, its TOML text (None if not set) and where it came from."""

    key: str
    value: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the configuration: where it is, its kind, its default, its text."""

    kind: Kind
    default: Any


@dataclass(frozen=True, slots=True)
class Group:
    """A table. `make` takes its values; `optional` is None unless something is in it."""

    make: Callable[..., Any]
    members: Mapping[str, Key | Group]
    optional: bool = False
    source: type | None = None
    """The class whose attribute texts are the comments."""


def group(cls: type, optional: bool = False) -> Group:
    """The tree of a section: a key for each field with a kind, a group for each other."""
    members: dict[str, Key | Group] = {}
    defaults = {f.name: f.default for f in fields(cls)}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if get_origin(hint) is Annotated:
            members[name] = Key(hint.__metadata__[0], defaults[name])
        else:
            parts = get_args(hint)  # of SECTION | None
            members[name] = group(parts[0] if parts else hint, optional=bool(parts))
    return Group(cls, members, optional, cls)


@dataclass(frozen=True, slots=True)
class Tree:
    """All that a file may have."""

    members: Mapping[str, Key | Group]
    removed: Mapping[str, str] = EMPTY
    """Keys of earlier versions, and what to do about them."""
