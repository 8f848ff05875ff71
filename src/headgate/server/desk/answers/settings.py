"""Answers about settings, about who asks, and about what was done."""

from __future__ import annotations

import msgspec

from headgate.server.desk.answers.base import Answer


class SettingRow(Answer, frozen=True, kw_only=True):
    """A key of the configuration."""

    key: str
    value: str | None
    """As TOML; null if it is not set. Secrets are not shown."""
    origin: str
    """Where it comes from: the default, the file, a variable."""
    default: str | None
    meaning: str
    reloadable: bool
    """Whether SIGHUP takes it over."""
    changed: bool
    """Whether it comes from anywhere but the defaults."""


class Build(Answer, frozen=True, kw_only=True):
    """What is running."""

    version: str
    python: str
    platform: str
    extras: list[str]
    """Optional packages that are installed."""
    process: int
    """The number of the process."""
    descriptors: int
    """File descriptors that it may have open."""


class SettingsAnswer(Answer, frozen=True, kw_only=True):
    """The configuration in effect, changed keys first."""

    rows: list[SettingRow]
    warnings: list[str]
    after_restart: list[str]
    """Keys whose values, since a reload, wait for a restart."""
    source: str | None
    """The file."""
    build: Build


class CommandOptions(Answer, frozen=True, kw_only=True):
    """Options with which a command reaches this router from anywhere on its machine."""

    admin: str
    """For commands that ask the admin port."""
    channels: str | None
    """For `pub` and `sub` of channels; null if nothing listens for their clients."""
    queues: str | None
    """For `pub` and `sub` of queues."""
    files: str
    """For commands that read what lies on the machine: the configuration, the journal."""


class MeAnswer(Answer, frozen=True, kw_only=True):
    """The viewer who asks."""

    operator: bool
    """Whether actions may be asked for."""
    actions: bool
    """Whether there are any: an operator's token is configured."""
    bodies: bool
    """Whether a tail may show bodies."""
    version: str
    options: CommandOptions


class ActionAnswer(Answer, frozen=True, kw_only=True):
    """What an action did, or would do."""

    action: str
    target: str
    outcome: str
    count: int | None = None
    """Of what is counted: messages removed, deliveries that come back, sessions left."""
    oldest_at: float | None = None
    changed: list[str] = msgspec.field(default_factory=list)
    after_restart: list[str] = msgspec.field(default_factory=list)
