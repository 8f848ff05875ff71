"""Reloading: the file of the configuration is read again, and what may change is taken over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from headgate.errors import HeadgateError
from headgate.server.config import Config, Secret
from headgate.server.config.sections import ServerConfig

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

logger = logging.getLogger("headgate")


class Reloading:
    """The configuration of a router as it was started and as it is now.

    The service owns it, and says how the file is read and who uses its domains and certificates.
    One reload happens after another, whoever asks for it. If one fails, nothing has changed.
    """

    def __init__(
        self,
        config: Config,
        read: Callable[[], Awaitable[Config]],
        take_over: Callable[[Config], None],
    ) -> None:
        self.config = config
        self.started = config
        self._read = read
        self._take_over = take_over
        self._lock = asyncio.Lock()
        self._domains = set(config.domains)
        """The names of all domains that there have been."""

    async def reload(self) -> tuple[list[str], list[str]]:
        """Take over what may change; the keys that did, and those that wait for a restart."""
        async with self._lock:
            try:
                new, changed, later = await self._compared()
                self._take_over(new)
            except HeadgateError as error:
                fields = {"error": str(error), "kept": "the old one"}
                logger.error("configuration not reloaded", extra={"fields": fields})
                raise
            self.config = new
        logger.setLevel(new.log.level.upper())
        for warning in new.warnings:
            logger.warning("configuration", extra={"fields": {"warning": warning}})
        self._domains |= set(new.domains)
        line = counts(new) | ({"after_restart": " ".join(later)} if later else {})
        logger.info("configuration reloaded", extra={"fields": line})
        return changed, later

    async def compare(self) -> tuple[list[str], list[str]]:
        """The keys that a reload would change, and those that would wait for a restart."""
        _, changed, later = await self._compared()
        return changed, later

    async def _compared(self) -> tuple[Config, list[str], list[str]]:
        """The file as it is now, the keys that it changes, and those that wait for a restart. With
        a thousand domains each takes a while, in which others are served."""
        new = await self._read()
        changed = await asyncio.to_thread(changed_keys, self.config, new)
        return new, changed, await asyncio.to_thread(self._after_restart, new)

    def _after_restart(self, new: Config) -> list[str]:
        gone = sorted(f"domains.{name}" for name in self._domains - set(new.domains))
        return waits_for_restart(self.started, new) + gone


def counts(config: Config) -> dict[str, object]:
    """What the log says of a configuration that is used from now on."""
    return {"domains": len(config.domains), "directory": str(config.directory)}


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
