"""Subscriptions to route by: those of consumers, the filters of apps, and a file of both."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headgate.errors import ExpressionError, PipelineError
from headgate.expr.explain import caret
from headgate.expr.nodes import Tree
from headgate.expr.parser import parse

CONSUMER_FIELDS = frozenset({"id", "app", "expression", "priority"})
FILTER_FIELDS = frozenset({"app", "filter"})
FORM = 'write {"id", "app", "expression", "priority"} or {"app", "filter"}'
PRIORITY_MAX = 2**31 - 1
"""Either way. The wires carry 32 bits."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription of a consumer. Without an expression it matches everything."""

    id: str
    app: str = ""
    expression: str | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Filter:
    """One application subscription. An app that has some gets what one of them is true for."""

    app: str
    expression: str


class Group(NamedTuple):
    """The subscriptions of an app with the same text, as the router joins them."""

    app: str
    expression: str | None
    priority: int
    """The highest of its members."""
    active: tuple[str, ...]
    """The ids of the members that have it, in the order in which they are given. The others
    get nothing."""


class Subscriptions:
    """Subscriptions whose expressions are known to be right."""

    __slots__ = ("consumers", "filters", "trees")

    def __init__(
        self, consumers: Iterable[Subscription] = (), filters: Iterable[Filter] = ()
    ) -> None:
        self.consumers = tuple(consumers)
        self.filters = tuple(filters)
        self.trees: dict[str, Tree] = {}
        """By the text of the expression, each once."""
        self._check((f"subscription {each.id}", each) for each in self.consumers)
        self._check((f"a filter of app {each.app!r}", each) for each in self.filters)

    @classmethod
    def read(cls, path: str | Path) -> Subscriptions:
        """From JSON lines, a JSON array, or a TOML file with arrays of tables."""
        made = cls()
        placed = [(where, _entry(where, fields)) for where, fields in _objects(Path(path))]
        made.consumers = tuple(each for _, each in placed if isinstance(each, Subscription))
        made.filters = tuple(each for _, each in placed if isinstance(each, Filter))
        made._check(placed)
        return made

    @property
    def apps(self) -> tuple[str, ...]:
        """All that are named, in the order of their names."""
        consumers = {each.app for each in self.consumers}
        return tuple(sorted(consumers.union(each.app for each in self.filters)))

    def groups(self) -> list[Group]:
        """In the order of their first members, which is the order in which a router tries those
        of one priority."""
        found: dict[tuple[str, str | None], list[Subscription]] = {}
        for each in self.consumers:
            found.setdefault((each.app, each.expression), []).append(each)
        return [
            Group(app, text, best, tuple(each.id for each in members if each.priority == best))
            for (app, text), members in found.items()
            for best in (max(each.priority for each in members),)
        ]

    def _check(self, placed: Iterable[tuple[str, Subscription | Filter]]) -> None:
        """Parse each text once; raise if one is wrong, or an id is there twice."""
        known: set[tuple[str, str]] = set()
        for where, each in placed:
            names = [each.app]
            if isinstance(each, Subscription):
                names.append(each.id)
                if (each.app, each.id) in known:
                    raise PipelineError(f"{where}: the app has an id {each.id!r} already")
                if not -PRIORITY_MAX <= each.priority <= PRIORITY_MAX:
                    raise PipelineError(f"{where}: a priority is at most {PRIORITY_MAX}")
                known.add((each.app, each.id))
            if not all(map(_is_unicode, names)):
                raise PipelineError(f"{where}: a name is not valid Unicode")
            text = each.expression
            if text is None or text in self.trees:
                continue
            try:
                self.trees[text] = parse(text)
            except ExpressionError as error:
                raise PipelineError(f"{where}: the expression is wrong\n{caret(error)}") from error


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _objects(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The entries of a file, each with its place."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"the subscriptions cannot be read: {error}") from error
    for where, entry in _entries(path, text):
        if not isinstance(entry, dict):
            raise PipelineError(f"{where}: this is no object; {FORM}")
        yield where, entry


def _entries(path: Path, text: str) -> Iterator[tuple[str, object]]:
    if path.suffix == ".toml":
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PipelineError(f"{path} is no TOML: {error}") from error
        for name, entries in tables.items():
            if not isinstance(entries, list):
                raise PipelineError(f"{path}: {name} is no array of tables; write [[{name}]]")
            for number, entry in enumerate(entries, 1):
                yield f"{path}, [[{name}]] {number}", entry
    elif text.lstrip().startswith("["):
        for number, entry in enumerate(_json(str(path), text), 1):
            yield f"{path}, entry {number}", entry
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                where = f"{path}, line {number}"
                yield where, _json(where, line)


def _json(where: str, text: str) -> Sequence[object]:
    try:
        found: Sequence[object] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PipelineError(f"{where}: this is no JSON: {error}") from error
    return found


def _entry(where: str, fields: Mapping[str, object]) -> Subscription | Filter:
    known = FILTER_FIELDS if "filter" in fields else CONSUMER_FIELDS
    unknown = sorted(fields.keys() - known)
    if unknown:
        raise PipelineError(f"{where}: unknown field {unknown[0]!r}; {FORM}")
    if "filter" in fields:
        return Filter(_text(where, fields, "app"), _text(where, fields, "filter"))
    priority = fields.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise PipelineError(f"{where}: the priority is no integer")
    return Subscription(
        _text(where, fields, "id"),
        _text(where, fields, "app") if "app" in fields else "",
        _text(where, fields, "expression") if fields.get("expression") is not None else None,
        priority,
    )


def _text(where: str, fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise PipelineError(f"{where}: {name!r} is missing, or no text; {FORM}")
    return value
