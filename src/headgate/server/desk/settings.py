"""The configuration in effect, as the API shows it: every key with its value, where that comes
from, its default and its meaning. Secrets are not shown."""

from __future__ import annotations

import inspect
import os
import platform
import resource
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec

from headgate.server.config.default import attribute_docs
from headgate.server.config.known_keys import DOMAIN, DOMAIN_DOCS, KNOWN
from headgate.server.config.sections import Config
from headgate.server.config.tree import Group, Key
from headgate.server.desk.answers import Build, SettingRow, SettingsAnswer
from headgate.server.desk.asking import shown
from headgate.server.reloading import is_reloadable, waits_for_restart

EXTRAS = {"pyarrow": "journal", "psycopg": "postgres", "pyspark": "spark", "rich": "rich"}
"""Packages that are not always there, and what they are for."""
DEFAULT = "default"
VALUE_CHARS = 2000


def settings_page(running: Config, latest: Config, version: str) -> SettingsAnswer:
    """The configuration that was read last; `running` is what the router started with."""
    rows = [_row(entry.key, entry.value, entry.origin) for entry in latest.entries]
    rows.sort(key=lambda row: not row.changed)
    return SettingsAnswer(
        rows=rows,
        warnings=[shown(warning, VALUE_CHARS) for warning in latest.warnings],
        after_restart=waits_for_restart(running, latest),
        source=None if latest.source is None else str(latest.source),
        build=Build(
            version=version,
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.release()} {platform.machine()}",
            extras=[package for package in EXTRAS if find_spec(package) is not None],
            process=os.getpid(),
            descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ),
    )


def _row(key: str, value: str | None, origin: str) -> SettingRow:
    default, meaning = known_keys().get(key) or known_keys().get(_of_domain(key)) or (None, "")
    return SettingRow(
        key=key,
        value=None if value is None else shown(value, VALUE_CHARS),
        origin=origin,
        default=default,
        meaning=meaning,
        reloadable=is_reloadable(key),
        changed=origin != DEFAULT,
    )


def _of_domain(key: str) -> str:
    """The key of any domain."""
    return f"domains.*.{key.rpartition('.')[2]}" if key.startswith("domains.") else key


@cache
def known_keys() -> Mapping[str, tuple[str | None, str]]:
    """The default and the meaning of every key."""
    found = dict(_keys("", KNOWN, {"directory": "The state directory, relative to the file."}))
    docs = attribute_docs(DOMAIN.source) if DOMAIN.source is not None else {}
    return found | dict(_keys("domains.*.", DOMAIN.members, docs | DOMAIN_DOCS))


def _keys(
    path: str, members: Mapping[str, Key | Group], docs: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str | None, str]]]:
    for name, member in members.items():
        if isinstance(member, Group):
            inner = attribute_docs(member.source) if member.source is not None else {}
            yield from _keys(f"{path}{name}.", member.members, inner)
        else:
            default = None if member.default is None else member.kind.show(member.default)
            yield f"{path}{name}", (default, inspect.cleandoc(docs.get(name, "")))
