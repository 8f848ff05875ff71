"""TOML and environment to the sections of a router."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headgate.core.model.domain import SMP_DOMAIN, Domain, Mode
from headgate.core.model.ids import WHOLE, AppId
from headgate.core.model.limits import Limits
from headgate.core.model.value import EMPTY
from headgate.core.redis.acl import DEFAULT_USER
from headgate.errors import ConfigError, ExpressionError
from headgate.expr.explain import caret, explain
from headgate.expr.parser import ExpressionLimits
from headgate.expr.predicate import Predicate, compile_expression
from headgate.server.config.kinds import Text, quoted
from headgate.server.config.known_keys import DOMAIN, DOMAINS, KNOWN, ROUTER
from headgate.server.config.reading import (
    Reading,
    cut,
    described,
    near,
    parsed,
    path_of,
    variables,
)
from headgate.server.config.sections import Config
from headgate.server.config.tree import Path_
from headgate.wire.bmq.codec.properties import COUNT_MAX

FILE_NAME = "headgate.toml"
"""Read from the current directory when no other file is named."""


def load_config(path: Path | None, environ: Mapping[str, str]) -> Config:
    """The configuration of a file, or without one, with the environment on top."""
    reader = _Reader(ROUTER, path)
    raw = {} if path is None else parsed(path)
    for variable in variables(environ):
        place = path_of(variable.name)
        if place[0] == DOMAINS and len(place) > 2:
            domain = _domain_table(variable.name, place[1], raw.get(DOMAINS))
            reader.overlay(domain, DOMAIN.members, place[2:], variable)
        else:
            reader.overlay(raw, KNOWN, place, variable)
    return reader.config(raw)


def _domain_table(variable: str, part: str, domains: object) -> object:
    """The domain of the file that a variable means: other characters are underscores."""
    names = domains if isinstance(domains, dict) else {}
    matching = [name for name in names if re.sub("[^a-z0-9]", "_", name.lower()) == part]
    if len(matching) != 1:
        how = "several domains" if matching else "no domain"
        raise ConfigError(f"environment variable {cut(variable)} names {how} of the file")
    return names[matching[0]]


class _Reader(Reading):
    """One reading of a router's configuration."""

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
        """Check values that can only be wrong together."""
        limits = config.limits
        self.check_admin(config.admin)
        if config.admin.operator_token is not None and (
            config.admin.operator_token == config.admin.token
        ):
            raise self.error(
                ("admin", "operator_token"), "is the same as admin.token: whoever looks could act"
            )
        for conflict in config.store.conflicts():
            raise self.error(("store", conflict.key), conflict.text)
        for conflict in config.workers.conflicts(config.listen, config.domains):
            raise self.error(("workers", conflict.key), conflict.text)
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
        bmq, resp = config.listen.bmq, config.listen.resp
        if bmq is None or (bmq.tls is not None and bmq.tls.client_ca is not None):
            return
        known = {*bmq.clients}
        if resp is not None:
            if resp.acl_file is not None:
                return  # whose users may change at any time
            known |= {DEFAULT_USER.decode(), *resp.users}
        for domain in config.domains.values():
            for key in ("readers", "writers", "creators"):
                for name in getattr(domain, key) or ():
                    if name not in known:
                        self.warn(
                            (DOMAINS, domain.name, key),
                            f"no client is named {quoted(cut(name))}{near(name, known)}",
                        )

    def domains(self, raw: object, limits: Limits) -> dict[str, Domain]:
        if not isinstance(raw, dict):
            raise self.error((DOMAINS,), f"{described(raw)} is not a table")
        domains = {}
        for name, table in raw.items():
            path = (DOMAINS, name)
            if not isinstance(table, dict):
                raise self.error(path, f"{described(table)} is not a table")
            if not Text().pattern.fullmatch(name) or len(name) > 255:
                raise self.error(path, "a domain's name is a text of 1 to 255 characters")
            if name == SMP_DOMAIN:
                raise self.error(path, "is the domain of the SMP queues; choose another name")
            domains[name] = self.domain(name, self.table(table, DOMAIN.members, path), limits)
        self.check_streams(domains)
        self.check_dead_letters(domains)
        return domains

    def check_streams(self, domains: Mapping[str, Domain]) -> None:
        """A key that two domains take is the first one's, which is probably not meant."""
        taken: dict[str, str] = {}
        for domain in domains.values():
            for pattern in domain.streams:
                first = taken.setdefault(pattern, domain.name)
                if first != domain.name:
                    self.warn(
                        (DOMAINS, domain.name, "streams"),
                        f"{quoted(pattern)} is a stream of the domain {first} already",
                    )

    def check_dead_letters(self, domains: Mapping[str, Domain]) -> None:
        """Check that dead letters go to a domain that keeps them until they are read, and not in a
        ring."""
        for domain in domains.values():
            path = (DOMAINS, domain.name, "dead_letter")
            seen, here = {domain.name}, domain
            while here.dead_letter:
                name = here.dead_letter.partition("/")[0]
                target = domains.get(name)
                if target is None:
                    raise self.error(path, f"there is no domain {quoted(name)}")
                if target.mode is Mode.BROADCAST:
                    raise self.error(path, f"the domain {quoted(name)} stores nothing")
                if name in seen:
                    raise self.error(path, f"they would come back to the domain {quoted(name)}")
                seen.add(name)
                here = target

    def domain(self, name: str, values: dict[str, Any], limits: Limits) -> Domain:
        path = (DOMAINS, name)
        mode, apps = Mode(values.pop("mode")), values.pop("apps")
        is_open = values["groups"] == "open"
        if is_open and mode is not Mode.FANOUT:
            raise self.error((*path, "groups"), "only a fanout domain has open groups")
        if mode is Mode.FANOUT and not apps and not is_open:
            raise self.error((*path, "apps"), "a fanout domain needs at least one app")
        if mode is Mode.BROADCAST and (values["keep_messages"] or values["keep_time"]):
            raise self.error((*path, "keep_messages"), "a broadcast domain stores nothing")
        if is_open and values["message_ttl"] is None:
            self.warn(
                (*path, "message_ttl"),
                "a group that nobody reads by any more holds up messages until it is dropped:"
                " give them a time",
            )
        if mode is not Mode.FANOUT and apps:
            raise self.error((*path, "apps"), f"a {mode.value} domain has no apps")
        apps = apps or (() if is_open else (WHOLE,))
        for key in ("fields", "properties"):
            values[key] = MappingProxyType(values[key]) if values[key] else EMPTY
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
                self.warn(path, f"{quoted(cut(expression))}: {warning}")
            return compile_expression(expression, bounds)
        except ExpressionError as error:
            picture = textwrap.indent(caret(error), "  ")
            # BMQ-65: a domain with a bad expression is not taken over.
            raise self.error(path, f"wrong expression\n{picture}") from error
