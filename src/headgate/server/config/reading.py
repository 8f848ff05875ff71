"""A file of the configuration, read along a tree of known keys.

Reading is one walk, so that every error can say the path of the key, what was found there and how
it is written right, and every value knows where it came from. From weakest to strongest: the
default, the file, the environment. ``HEADGATE_ADMIN__PORT`` is the key ``port`` in ``[admin]``:
two underscores per level.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headgate.core.model.limits import KiB, MiB
from headgate.errors import ConfigError
from headgate.server.config.hosts import is_loopback
from headgate.server.config.kinds import FileName, Secret, Secrets, Unlimited, quoted
from headgate.server.config.sections import Admin
from headgate.server.config.tree import Entry, Group, Key, Path_, Tree

FILE_BYTES = 1 * MiB
"""A larger file is not a configuration."""

SECRET_BYTES = 64 * KiB
"""A larger file is not a secret."""

PREFIX = "HEADGATE_"

COMMAND_LINE = frozenset(
    f"HEADGATE_{name}"
    for name in (
        *("CONFIG", "READY_FILE", "DEBUG", "PURE"),
        *(
            "URL",
            "CONTEXT",
            "TOKEN",
            "ROUTER",
            "TOKEN_FILE",
            "RESP",
            "BMQ",
            "BMQ_CLIENT",
            "BMQ_TOKEN",
            "PASSWORD",
        ),
        *("AGENT", "AGENT_FROM", "AGENT_MESSAGE"),
        *("NTF_CONFIG", "NTF_READY_FILE"),
    )
)
"""Variables that are options of the command line, not keys of the configuration."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A value that an environment variable put in the place of the file's."""

    name: str
    text: str


def variables(environ: Mapping[str, str]) -> list[Variable]:
    """The variables that are keys of the configuration."""
    return [
        Variable(name, environ[name])
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in COMMAND_LINE
    ]


def path_of(variable: str) -> Path_:
    """The key that a variable means."""
    return tuple(variable.removeprefix(PREFIX).lower().split("__"))


def parsed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}") from error
    if len(data) > FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {FILE_BYTES} bytes")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        place = _place(data[: error.start].decode(errors="replace"))
        raise ConfigError(f"{path}: {place}: not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|.*)\)", str(error), re.DOTALL)
        assert found, "every error of tomllib says where it is"
        place = f"line {found[2]}, column {found[3]}" if found[2] else _place(data.decode())
        raise ConfigError(f"{path}: {place}: {found[1]}") from None
    except RecursionError:
        raise ConfigError(f"{path}: values are nested too deeply") from None
    except ValueError:  # a number of more digits than Python converts
        raise ConfigError(f"{path}: a number is too long") from None


def _place(before: str) -> str:
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def dotted(path: Iterable[str]) -> str:
    return ".".join(p if re.fullmatch("[A-Za-z0-9_-]+", p) else quoted(cut(p)) for p in path)


def cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def described(raw: object) -> str:
    match raw:
        case bool():
            return str(raw).lower()
        case str():
            return quoted(cut(raw))
        case int() if raw.bit_length() > 64:
            return "a huge number"
        case int() | float():
            return str(raw)
        case dict():
            return "a table"
        case list():
            return "a list"
        case _:
            return "a date or a time"


def near(name: str, known: Iterable[str]) -> str:
    """The hint after an unknown name."""
    names = sorted(known)
    close = get_close_matches(name[:100], names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known are {', '.join(names)}" if 0 < len(names) <= 20 else ""


def _paths(members: Mapping[str, Key | Group]) -> Iterator[Path_]:
    for name, member in members.items():
        if isinstance(member, Key):
            yield (name,)
        else:
            yield from ((name, *rest) for rest in _paths(member.members))


class Reading:
    """One reading: collects the effective values and the warnings on its way."""

    def __init__(self, tree: Tree, source: Path | None) -> None:
        self.tree = tree
        self.source = source
        self.folder = Path.cwd() if source is None else source.parent
        self.entries: list[Entry] = []
        self.warnings: list[str] = []

    def overlay(
        self,
        table: Any,  # noqa: ANN401  whatever TOML gave
        members: Mapping[str, Key | Group],
        path: Path_,
        variable: Variable,
    ) -> None:
        """Put a variable at its place in what the file gave: below this table, at this path."""
        *groups, last = path
        for part in groups:
            member = members.get(part)
            if not isinstance(member, Group):
                raise self.unknown(variable.name)
            if not isinstance(table, dict):
                return  # the file has something else there, and reading it will say so
            members, table = member.members, table.setdefault(part, {})
        if not isinstance(members.get(last), Key):
            raise self.unknown(variable.name)
        if isinstance(table, dict):
            table[last] = variable

    def unknown(self, name: str) -> ConfigError:
        if advice := self.tree.removed.get(".".join(path_of(name))):
            return ConfigError(f"{name} {advice}")
        known = {PREFIX + "__".join(path).upper() for path in _paths(self.tree.members)}
        return ConfigError(
            f"unknown environment variable {cut(name)}{near(name, known | COMMAND_LINE)}"
        )

    def check_admin(self, admin: Admin) -> None:
        if not is_loopback(admin.host) and admin.token is None:
            raise self.error(
                ("admin", "host"),
                f"{admin.host} is beyond loopback, where a token is needed: set admin.token",
            )

    def table(
        self, raw: object, members: Mapping[str, Key | Group], path: Path_, also: Path_ = ()
    ) -> dict[str, Any]:
        """The values of a table, read and complete."""
        if not isinstance(raw, dict):
            raise self.error(path, f"{described(raw)} is not a table")
        for name in raw:
            if advice := self.tree.removed.get(".".join((*path, name))):
                raise self.error((*path, name), advice)
            if name not in members:
                what = "section" if isinstance(raw[name], dict) else "key"
                advice = near(name, [*members, *also])
                raise self.error((*path, name), f"unknown {what}{advice}")
        values: dict[str, Any] = {}
        for name, member in members.items():
            here = (*path, name)
            if isinstance(member, Key):
                values[name] = self.value(raw, name, member, here)
            elif member.optional and name not in raw:
                values[name] = None
            else:
                values[name] = member.make(**self.table(raw.get(name, {}), member.members, here))
        return values

    def value(self, raw: dict[str, Any], name: str, key: Key, path: Path_) -> Any:  # noqa: ANN401
        value, origin = key.default, "default"
        if name in raw:
            found = raw[name]
            variable = found if isinstance(found, Variable) else None
            origin = f"environment {variable.name}" if variable else "file"
            try:
                value = key.kind.parse(variable.text) if variable else key.kind.read(found)
            except ValueError:
                shown = "the value" if key.kind.secret else described(found)
                if variable:
                    shown = "the value" if key.kind.secret else quoted(cut(variable.text))
                    raise ConfigError(f"{variable.name}: {shown} is not {key.kind.form}") from None
                raise self.error(path, f"{shown} is not {key.kind.form}") from None
        unset = value is None and not isinstance(key.kind, Unlimited)
        self.entries.append(Entry(dotted(path), None if unset else key.kind.show(value), origin))
        match value:
            case Secret():
                return self.resolved(value, path)
            case Mapping() if isinstance(key.kind, Secrets):
                found = {each: self.resolved(item, (*path, each)) for each, item in value.items()}
                return MappingProxyType(found)
            case str() if isinstance(key.kind, FileName):
                return os.path.normpath(self.folder.absolute() / value)
            case _:
                return value

    def resolved(self, secret: Secret, path: Path_) -> Secret:
        """The secret itself where a ``file:`` reference stands."""
        kind, _, name = secret.reveal().partition(":")
        if kind != "file":
            return secret
        try:
            with (self.folder / name).open("rb") as file:
                text = file.read(SECRET_BYTES + 1).decode().rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a text file"
            raise self.error(path, f"cannot read {quoted(secret.shown)}: {reason}") from None
        if not text or len(text) > SECRET_BYTES:
            raise self.error(path, f"{quoted(secret.shown)} is empty or too large")
        return Secret(text, secret.shown)

    def warn(self, path: Path_, text: str) -> None:
        self.warnings.append(f"{dotted(path)}: {text}")

    def error(self, path: Path_, text: str) -> ConfigError:
        source = f"{self.source}: " if self.source else ""
        return ConfigError(f"{source}{dotted(path)}: {text}")
