"""TOML and environment to the sections.

Reading is one walk over the tree of known keys, so that every error can say the path of the
key, what was found there and how it is written right, and every value knows where it came
from. From weakest to strongest: the default, the file, the environment.
``HEADGATE_ADMIN__PORT`` is the key ``port`` in ``[admin]``: two underscores per level.
"""

from __future__ import annotations

import os
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headgate.core.model.domain import SMP_DOMAIN, Domain, Mode
from headgate.core.model.ids import WHOLE, AppId
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.errors import ConfigError, ExpressionError
from headgate.expr.explain import caret, explain
from headgate.expr.parser import ExpressionLimits
from headgate.expr.predicate import Predicate, compile_expression
from headgate.server.config.hosts import is_loopback
from headgate.server.config.kinds import FileName, Secret, Secrets, Text, Unlimited, quoted
from headgate.server.config.sections import (
    DOMAIN,
    DOMAINS,
    KNOWN,
    REMOVED,
    Config,
    Entry,
    Group,
    Key,
    Path_,
)
from headgate.wire.bmq.codec.properties import COUNT_MAX

FILE_BYTES = 1 * MiB
"""A larger file is not a configuration."""

SECRET_BYTES = 64 * KiB
"""A larger file is not a secret."""

PREFIX = "HEADGATE_"

COMMAND_LINE = frozenset(
    f"HEADGATE_{name}"
    for name in (
        *("CONFIG", "READY_FILE", "DEBUG"),
        *("ROUTER", "TOKEN_FILE", "RESP", "BMQ", "BMQ_CLIENT", "BMQ_TOKEN", "PASSWORD"),
        *("AGENT", "AGENT_FROM", "AGENT_MESSAGE"),
    )
)
"""Variables that are options of the command line, not keys of the configuration."""

FILE_NAME = "headgate.toml"
"""Read from the current directory when no other file is named."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A value that an environment variable put in the place of the file's."""

    name: str
    text: str


def load_config(path: Path | None, environ: Mapping[str, str]) -> Config:
    """The configuration of a file, or without one, with the environment on top."""
    reader = _Reader(path)
    raw = {} if path is None else _parsed(path)
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in COMMAND_LINE:
            _overlay(raw, name, environ[name])
    return reader.config(raw)


def _parsed(path: Path) -> dict[str, Any]:
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


def _dotted(path: Iterable[str]) -> str:
    return ".".join(p if re.fullmatch("[A-Za-z0-9_-]+", p) else quoted(_cut(p)) for p in path)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _described(raw: object) -> str:
    match raw:
        case bool():
            return str(raw).lower()
        case str():
            return quoted(_cut(raw))
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


def _near(name: str, known: Iterable[str]) -> str:
    """What to say after an unknown name."""
    names = sorted(known)
    close = get_close_matches(name[:100], names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known are {', '.join(names)}" if 0 < len(names) <= 20 else ""


# The environment.


def _overlay(raw: dict[str, Any], name: str, text: str) -> None:
    """Put a variable at its place in what the file gave."""
    *groups, last = name.removeprefix(PREFIX).lower().split("__")
    members: Mapping[str, Key | Group] = KNOWN
    table: Any = raw
    if groups[:1] == [DOMAINS] and len(groups) > 1:
        table = _domain_table(name, groups[1], raw.get(DOMAINS))
        members, groups = DOMAIN.members, groups[2:]
    for part in groups:
        member = members.get(part)
        if not isinstance(member, Group):
            raise _unknown(name)
        if not isinstance(table, dict):
            return  # the file has something else there, and reading it will say so
        members, table = member.members, table.setdefault(part, {})
    if not isinstance(members.get(last), Key):
        raise _unknown(name)
    if isinstance(table, dict):
        table[last] = Variable(name, text)


def _unknown(name: str) -> ConfigError:
    if advice := REMOVED.get(name.removeprefix(PREFIX).lower().replace("__", ".")):
        return ConfigError(f"{name} {advice}")
    known = {PREFIX + "__".join(path).upper() for path in _paths(KNOWN)} | COMMAND_LINE
    return ConfigError(f"unknown environment variable {_cut(name)}{_near(name, known)}")


def _domain_table(variable: str, part: str, domains: object) -> object:
    """The domain of the file that a variable means: other characters are underscores."""
    names = domains if isinstance(domains, dict) else {}
    matching = [name for name in names if re.sub("[^a-z0-9]", "_", name.lower()) == part]
    if len(matching) != 1:
        how = "several domains" if matching else "no domain"
        raise ConfigError(f"environment variable {_cut(variable)} names {how} of the file")
    return names[matching[0]]


def _paths(members: Mapping[str, Key | Group]) -> Iterator[Path_]:
    for name, member in members.items():
        if isinstance(member, Key):
            yield (name,)
        else:
            yield from ((name, *rest) for rest in _paths(member.members))


class _Reader:
    """One reading: collects the effective values and the warnings on its way."""

    def __init__(self, source: Path | None) -> None:
        self.source = source
        self.folder = Path.cwd() if source is None else source.parent
        self.entries: list[Entry] = []
        self.warnings: list[str] = []

    def config(self, raw: dict[str, Any]) -> Config:
        domains = raw.pop(DOMAINS, {})
        values = self.table(raw, KNOWN, (), (DOMAINS,))
        directory = (self.folder / values.pop("directory")).absolute()
        limits = values["limits"]
        config = Config(
            directory=directory,
            domains=MappingProxyType(self.domains(domains, limits)),
            source=self.source,
            entries=tuple(self.entries),
            **values,
        )
        self.check(config)
        return replace(config, warnings=tuple(self.warnings))

    def check(self, config: Config) -> None:
        """What only several values together can be wrong about."""
        admin, limits = config.admin, config.limits
        if not is_loopback(admin.host) and admin.token is None:
            raise self.error(
                ("admin", "host"),
                f"{admin.host} is beyond loopback, where a token is needed: set admin.token",
            )
        for name, listen in config.listen.each().items():
            for conflict in listen.conflicts(limits):
                path = ("listen", name, conflict.key)
                if conflict.is_error:
                    raise self.error(path, conflict.text)
                self.warn(path, conflict.text)
        self.check_rights(config)
        if limits.mailbox_bytes_soft > limits.mailbox_bytes_hard:
            raise self.error(("limits", "mailbox_bytes_soft"), "is above mailbox_bytes_hard")
        if limits.message_properties > COUNT_MAX:
            raise self.error(("limits", "message_properties"), f"is above {COUNT_MAX}")

    def check_rights(self, config: Config) -> None:
        """A name on a list that no client can have is probably a mistake."""
        bmq = config.listen.bmq
        if bmq is None or (bmq.tls is not None and bmq.tls.client_ca is not None):
            return
        for domain in config.domains.values():
            for key in ("readers", "writers", "creators"):
                for name in getattr(domain, key) or ():
                    if name not in bmq.clients:
                        self.warn(
                            (DOMAINS, domain.name, key),
                            f"no client is named {quoted(_cut(name))}{_near(name, bmq.clients)}",
                        )

    def table(
        self, raw: object, members: Mapping[str, Key | Group], path: Path_, also: Path_ = ()
    ) -> dict[str, Any]:
        """The values of a table, read and complete."""
        if not isinstance(raw, dict):
            raise self.error(path, f"{_described(raw)} is not a table")
        for name in raw:
            if advice := REMOVED.get(".".join((*path, name))):
                raise self.error((*path, name), advice)
            if name not in members:
                what = "section" if isinstance(raw[name], dict) else "key"
                near = _near(name, [*members, *also])
                raise self.error((*path, name), f"unknown {what}{near}")
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
                shown = "the value" if key.kind.secret else _described(found)
                if variable:
                    shown = "the value" if key.kind.secret else quoted(_cut(variable.text))
                    raise ConfigError(f"{variable.name}: {shown} is not {key.kind.form}") from None
                raise self.error(path, f"{shown} is not {key.kind.form}") from None
        unset = value is None and not isinstance(key.kind, Unlimited)
        self.entries.append(Entry(_dotted(path), None if unset else key.kind.show(value), origin))
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

    def domains(self, raw: object, limits: Limits) -> dict[str, Domain]:
        if not isinstance(raw, dict):
            raise self.error((DOMAINS,), f"{_described(raw)} is not a table")
        domains = {}
        for name, table in raw.items():
            path = (DOMAINS, name)
            if not isinstance(table, dict):
                raise self.error(path, f"{_described(table)} is not a table")
            if not Text().pattern.fullmatch(name) or len(name) > 255:
                raise self.error(path, "a domain's name is a text of 1 to 255 characters")
            if name == SMP_DOMAIN:
                raise self.error(path, "is the domain of the SMP queues; choose another name")
            domains[name] = self.domain(name, self.table(table, DOMAIN.members, path), limits)
        return domains

    def domain(self, name: str, values: dict[str, Any], limits: Limits) -> Domain:
        path = (DOMAINS, name)
        mode, apps = Mode(values.pop("mode")), values.pop("apps")
        if mode is Mode.FANOUT and not apps:
            raise self.error((*path, "apps"), "a fanout domain needs at least one app")
        if mode is not Mode.FANOUT and apps:
            raise self.error((*path, "apps"), f"a {mode.value} domain has no apps")
        apps = apps or (WHOLE,)
        filters: dict[AppId, tuple[Predicate, ...]] = {}
        for app, expressions in values.pop("subscriptions").items():
            here = (*path, "subscriptions", app)
            # BMQ-70: an expression for an app that is not there is ignored with a warning.
            if app in apps:
                filters[app] = tuple(self.predicate(e, limits, here) for e in expressions)
            else:
                self.warn(here, "ignored, the domain has no such app")
        return Domain(name=name, mode=mode, apps=apps, filters=MappingProxyType(filters), **values)

    def predicate(self, expression: str, limits: Limits, path: Path_) -> Predicate:
        bounds = ExpressionLimits(limits.expression_bytes, limits.expression_operators)
        try:
            for warning in explain(expression, bounds).warnings:
                self.warn(path, f"{quoted(_cut(expression))}: {warning}")
            return compile_expression(expression, bounds)
        except ExpressionError as error:
            picture = textwrap.indent(caret(error), "  ")
            # BMQ-65: a domain with a bad expression is not taken over.
            raise self.error(path, f"wrong expression\n{picture}") from error

    def warn(self, path: Path_, text: str) -> None:
        self.warnings.append(f"{_dotted(path)}: {text}")

    def error(self, path: Path_, text: str) -> ConfigError:
        source = f"{self.source}: " if self.source else ""
        return ConfigError(f"{source}{_dotted(path)}: {text}")
