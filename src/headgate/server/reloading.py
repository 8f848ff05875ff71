"""Reloading: which keys of a changed configuration wait for a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from headgate.server.config import Secret
from headgate.server.config.sections import ServerConfig

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def is_reloadable(key: str) -> bool:
    """Whether a router that runs takes over a new value. The mode of a domain is not changed under
    its messages."""
    return key == "log.level" or (key.startswith("domains.") and not key.endswith(".mode"))


def waits_for_restart(running: ServerConfig, new: ServerConfig) -> list[str]:
    """The keys whose new values a router takes over only when it starts again."""
    known = {entry.key for entry in running.entries}
    changed = [key for key in changed_keys(running, new) if not is_reloadable(key)]
    return [key for key in changed if key in known or not key.startswith("domains.")]


def changed_keys(running: ServerConfig, new: ServerConfig) -> list[str]:
    """The keys that have other values."""
    before, after = ({e.key: e.value for e in config.entries} for config in (running, new))
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    before_secrets, after_secrets = dict(secrets(running)), dict(secrets(new))
    changed |= {key for key, value in after_secrets.items() if value != before_secrets.get(key)}
    return sorted(changed)


def secrets(section: DataclassInstance, path: str = "") -> Iterator[tuple[str, object]]:
    """The keys with secrets, which entries do not show, and their values."""
    for each in fields(section):
        key, value = f"{path}{each.name}", getattr(section, each.name)
        texts = value.values() if isinstance(value, Mapping) else (value,)
        if any(isinstance(text, Secret) for text in texts):
            yield key, value
        elif is_dataclass(value) and not isinstance(value, type):
            yield from secrets(value, f"{key}.")
