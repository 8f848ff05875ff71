"""Facts to structured lines: ``key=value`` on a terminal, JSON elsewhere.

A line is for something that an operator may want to act on: displacement, limits, queues that fill
or stop. Facts of every message are counted (`metrics.py`) and not written. That a session comes or
goes is a line at the level debug only: clients that connect a thousand times a second would fill a
disk and hide the rest. Metrics count them, and the journal has them all.

Ids are shortened, and what a peer chose is quoted and cut: a session's name cannot make a second
line.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import IO

from headgate.core import facts as f
from headgate.core.facts import Fact
from headgate.core.model.fact_kind import FACT_KINDS
from headgate.core.model.ids import QueueId
from headgate.core.model.tally import name_of
from headgate.core.model.value import EMPTY

LEVELS: Mapping[type[Fact], int] = {
    kind: logging.getLevelNamesMapping()[known.log.upper()]
    for kind, known in FACT_KINDS.items()
    if known.log is not None
}
"""The facts that are lines, and how important they are."""

NO_DRIFT = ("none", "unknown")
"""The service and the router agree, or the service did not say what it expects."""

NAME_PARTS = ("peer", "called")
"""Of a session; its name is made of these."""
MAY_BE_EMPTY = (*NAME_PARTS, "agent", "user")
"""Fields that are left out where nothing is known."""

ID_BYTES = 4
TEXT_CHARS = 64
DETAIL_CHARS = 2000

logger = logging.getLogger("headgate")


class FactLog:
    """Writes facts as log lines, at most so many of a kind in one second.

    Owned by the service; the router passes facts to `observe`. Left-out lines are counted in a line
    of their own.
    """

    def __init__(self, lines_per_second: int, clock: Callable[[], float]) -> None:
        self.lines_per_second = lines_per_second
        self.clock = clock
        self._second = 0
        self._lines: dict[type[Fact], int] = {}

    def observe(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            level = LEVELS.get(type(fact))
            if level is not None and logger.isEnabledFor(level):
                self._write(fact, level)

    def flush(self) -> None:
        """Say what was left out of a second that is over. To be called now and then."""
        second = int(self.clock())
        if second == self._second:
            return
        lines, self._second, self._lines = self._lines, second, {}
        for kind, count in lines.items():
            left_out = count - self.lines_per_second
            if left_out > 0:
                entries = {"kind": kind.__name__, "left_out": left_out}
                logger.warning("LinesLeftOut", extra={"fields": entries})

    def _write(self, fact: Fact, level: int) -> None:
        if isinstance(fact, f.ServiceSubscribed) and fact.drift in NO_DRIFT:
            return  # only a service that disagrees is worth a line
        self.flush()
        kind = type(fact)
        count = self._lines.get(kind, 0) + 1
        self._lines[kind] = count
        if count <= self.lines_per_second:
            logger.log(level, kind.__name__, extra={"fields": _line_fields(fact)})


def _line_fields(fact: Fact) -> dict[str, object]:
    """Without what the name of a session has already."""
    entries = fields_of(fact)
    if "name" in entries:
        for part in NAME_PARTS:
            entries.pop(part, None)
    return entries


def fields_of(fact: Fact) -> dict[str, object]:
    """The fields of a fact as they may be written."""
    entries: dict[str, object] = {}
    for item in fields(fact):
        value = getattr(fact, item.name)
        match value:
            case _ if item.name == "at" or (not value and item.name in MAY_BE_EMPTY):
                continue
            case bytes() if item.name == "queue":
                entries[item.name] = _queue(value)
            case bytes():
                entries[item.name] = value[:ID_BYTES].hex() + ("…" if len(value) > ID_BYTES else "")
            case str():
                most = DETAIL_CHARS if item.name in ("detail", "reason") else TEXT_CHARS
                entries[item.name] = value if len(value) <= most else value[:most] + "…"
            case float():
                entries[item.name] = round(value, 3)
            case _:
                entries[item.name] = value
    return entries


def _queue(queue: bytes) -> str:
    """A name as it is. An id that was drawn is known to its parties alone, and so it is called by
    its digest, as in the journal."""
    try:
        name = queue.decode()
    except UnicodeDecodeError:
        name = ""
    if name.isprintable() and name:
        return name if len(name) <= TEXT_CHARS else name[:TEXT_CHARS] + "…"
    return name_of(QueueId(queue))[:ID_BYTES].hex() + "…"


class Formatter(logging.Formatter):
    """One record, one line, whatever is in it."""

    def __init__(self, as_json: bool, marks: Mapping[str, object] = EMPTY) -> None:
        super().__init__()
        self.as_json = as_json
        self.marks = marks
        """Fields that every line has besides."""

    def format(self, record: logging.LogRecord) -> str:
        entries: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
            **self.marks,
        }
        if record.name != logger.name:
            entries["logger"] = record.name
        if record.exc_info:
            entries["traceback"] = self.formatException(record.exc_info)
        if self.as_json:
            return json.dumps(entries, default=str)
        at, level, event = entries.pop("at"), entries.pop("level"), entries.pop("event")
        pairs = "".join(f" {key}={_plain(value)}" for key, value in entries.items())
        return f"{at} {level:<7} {_plain(event, ' ')}{pairs}"


def _plain(value: object, also: str = "") -> str:
    """A value as it is, or quoted if it has anything that could be taken for something else."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    harmless = text and all(c.isprintable() and c not in '" =' for c in text.replace(also, ""))
    return text if harmless else json.dumps(text, ensure_ascii=not text.isprintable())


def set_up(
    level: str,
    form: str,
    stream: IO[str] | None = None,
    marks: Mapping[str, object] = EMPTY,
) -> None:
    """Send every log line of the process to standard error, once, in one form."""
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    as_json = form == "json" or (form == "auto" and not target.isatty())
    handler.setFormatter(Formatter(as_json, marks))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logger.setLevel(level.upper())
