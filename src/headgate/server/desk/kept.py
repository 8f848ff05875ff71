"""Facts that the desk remembers: the last ones that are worth a line, and the properties of the
last messages, to try expressions on."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from headgate.core import facts as f
from headgate.core.facts import KINDS, Fact
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.fact_kind import FACT_KINDS, LogLevel
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.message import Properties, properties_size
from headgate.core.model.queue_uri import SCHEME, TIER
from headgate.server.desk.answers import FactRow, MessageRow
from headgate.server.desk.asking import shown, shown_value
from headgate.server.log import fields_of

FACTS_KEPT = 1000
FACTS_PER_SECOND = 100
RECENT_PER_SECOND = 50
"""Messages of one domain whose properties are kept, by the second: enough to try things on."""
RECENT_DOMAINS = 32
"""Domains whose messages are kept; the one that began first is forgotten first."""
RECENT_BYTES = 2048
"""A message with more of properties is not kept: all of them together stay below 32 MiB."""
PROPERTIES_SHOWN = 20

LEVELS: dict[type[Any], LogLevel] = {
    kind: known.log for kind, known in FACT_KINDS.items() if known.log is not None
}

LEFT_OUT = sorted(kind.__name__ for kind in KINDS if kind not in LEVELS)
"""Kinds that are never kept: what happens for every message, and what only programs count."""


class KeptFacts:
    """The last facts, numbered, so many a second."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, Fact]] = deque(maxlen=FACTS_KEPT)
        self.last = 0
        self.skipped: Counter[str] = Counter()
        """Not kept, as there were too many in one second: how many of each kind."""
        self._second = 0

    def take(self, fact: Fact) -> None:
        """Keep a fact of a kind that has a level."""
        if self._second >= FACTS_PER_SECOND:
            self.skipped[type(fact).__name__] += 1
            return
        self._second += 1
        self.last += 1
        self._rows.append((self.last, fact))

    def pass_second(self) -> None:
        self._second = 0

    def newest(
        self, *, level: str = "debug", kind: str = "", after: int = 0, most: int = 200
    ) -> list[FactRow]:
        """The newest first. A level is meant with all that are worse."""
        order = ("debug", "info", "warning", "error")
        wanted = order[order.index(level) :]
        found = (
            fact_row(number, fact)
            for number, fact in reversed(self._rows)
            if number > after
            and LEVELS[type(fact)] in wanted
            and (not kind or type(fact).__name__ == kind)
        )
        return list(islice(found, most))

    def about(self, session: int, most: int) -> list[FactRow]:
        """The newest that name a session."""
        found = (
            fact_row(number, fact)
            for number, fact in reversed(self._rows)
            if getattr(fact, "session", None) == session
        )
        return list(islice(found, most))


def fact_row(number: int, fact: Fact) -> FactRow:
    fields = {
        name: shown(value, 2000) if isinstance(value, str) else _plain(value)
        for name, value in fields_of(fact).items()
    }
    kind = type(fact)
    return FactRow(id=number, at=fact.at, kind=kind.__name__, level=LEVELS[kind], fields=fields)


def _plain(value: object) -> object:
    """A field as JSON has it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return shown(str(value))


class RecentMessage(NamedTuple):
    """A message that came lately, without its body."""

    at: float
    queue: QueueId
    message: MessageId
    size: int
    properties: Properties

    def row(self) -> MessageRow:
        return message_row(self.at, self.message, self.size, self.properties)


def message_row(at: float, message: MessageId, size: int, properties: Properties) -> MessageRow:
    """A message as it may be shown."""
    first = list(islice(properties.items(), PROPERTIES_SHOWN))
    return MessageRow(
        at=at,
        message=message.hex(),
        size=size,
        properties={shown(name): shown_value(value) for name, value in first},
        truncated=len(first) < len(properties)
        or any(isinstance(value, str | bytes) and len(value) > 200 for _, value in first),
    )


class RecentMessages:
    """The properties of the last messages of each domain with shared queues, so many a second."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._by_domain: dict[str, deque[RecentMessage]] = {}
        self._second: dict[str, int] = {}
        self._passed: set[QueueId] = set()
        """Queues of which nothing more is kept in this second."""

    def take(self, fact: f.Accepted) -> None:
        """Keep a message, if it has properties and there is room for it in this second."""
        if not fact.properties or not self._kept or fact.queue in self._passed:
            return
        domain = domain_of(fact.queue)
        count = self._second.get(domain, 0)
        if not domain or count >= RECENT_PER_SECOND:
            self._passed.add(fact.queue)
            return
        if properties_size(fact.properties) > RECENT_BYTES:
            return
        self._second[domain] = count + 1
        rows = self._by_domain.get(domain)
        if rows is None:
            if len(self._by_domain) >= RECENT_DOMAINS:
                del self._by_domain[next(iter(self._by_domain))]
            rows = self._by_domain[domain] = deque(maxlen=self._kept)
        rows.append(
            RecentMessage(fact.at, fact.queue, fact.message, fact.size, dict(fact.properties))
        )

    def pass_second(self) -> None:
        self._second.clear()
        self._passed.clear()

    def of(self, domain: str) -> Sequence[RecentMessage]:
        """The oldest first."""
        return self._by_domain.get(domain, ())

    def newest(self, domain: str) -> Iterator[RecentMessage]:
        return reversed(self.of(domain))


def domain_of(queue: QueueId) -> str:
    """The domain in the name of a shared queue; empty for an exclusive one."""
    scheme = SCHEME.encode()
    if not queue.startswith(scheme):
        return ""
    authority = queue[len(scheme) :].partition(b"/")[0].decode(errors="replace")
    return authority.partition(TIER)[0]


def is_shared(domain: Domain) -> bool:
    return domain.mode is not Mode.EXCLUSIVE
