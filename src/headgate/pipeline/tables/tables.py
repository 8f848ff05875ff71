"""The tables: what each is made of, and what its columns mean.

A table's rows are made from the facts of one batch alone, so a batch that is repeated makes them
again, and batches can be worked on in any order. Rows that belong together across batches (the
counts of a minute, the end of a subscription) are joined when the table is read: `view`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core import facts as f
from headgate.core import ntf_facts as n
from headgate.core.ntf_facts import AnyFact
from headgate.pipeline.source.schema import FACTS, PROPERTIES
from headgate.pipeline.tables import match_counts
from headgate.pipeline.tables import transforms as t
from headgate.pipeline.tables.transforms import Step


@dataclass(frozen=True, slots=True)
class Table:
    """A table: how its rows are made of facts, how they are merged and read."""

    name: str
    about: str
    kinds: tuple[type[AnyFact], ...]
    """The facts it is made of; all of them if it names none."""
    make: Step | None
    """The rows of one batch of facts; none if they take more than the facts."""
    columns: Mapping[str, tuple[str, str]]
    """The columns of a reader: the type and the meaning of each."""
    view: Step | None = None
    """From stored rows to what a reader sees, where the two differ."""
    parts: str = ""
    """The form of stored rows, where they are not rows of the table."""
    stored: Mapping[str, str] = field(default_factory=dict)
    """The types of stored columns, where they differ from what a reader sees."""
    lasting: Step | None = None
    """From all stored rows to those that last whatever their day: retention keeps them."""
    fold: Step | None = None
    """From events to rows that need them no more. Upkeep leaves these and what lasts, so that who
    reads does not put all of history together again."""

    @property
    def kind_names(self) -> frozenset[str]:
        return frozenset(kind.__name__ for kind in self.kinds)

    @property
    def stored_types(self) -> Mapping[str, str]:
        """The columns of its files, and their types."""
        types = self.stored or {name: type_ for name, (type_, _) in self.columns.items()}
        return {**types, "day": "date"}

    @property
    def stored_schema(self) -> str:
        return ", ".join(f"`{name}` {type_}" for name, type_ in self.stored_types.items())

    @property
    def stored_name(self) -> str:
        """The name of its files for programs that read them as they are."""
        return f"{self.name}_{self.parts}" if self.parts else self.name


# Columns that several tables have.

TIME = ("timestamp", "when it happened")
NUMBER = ("bigint", "the number of the fact in the journal")
ADDRESS = ("string", "the queue: its URI, or the digest of an exclusive one in hex")
DOMAIN = ("string", "the domain of a shared queue")
APP = ("string", "the app; empty for a queue without apps")
MESSAGE = ("binary", "the id of the message")
SESSION = ("bigint", "the session; a router that starts anew counts anew")
TOKEN = ("string", "the digest of the token in hex")
DAY = ("date", "the day in UTC; tables are partitioned by it")


def _count(name: str) -> tuple[str, str]:
    return "bigint", f"messages {name.replace('_', ' ')}"


TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            "facts",
            "Every fact of the journal, as it is there, with its time and day.",
            (),
            t.facts,
            {
                **{each.name: (each.dataType.simpleString(), "") for each in FACTS},
                "time": TIME,
                "day": DAY,
            },
        ),
        Table(
            "messages",
            "Every message that the router accepted.",
            (f.Accepted,),
            t.messages,
            {
                "number": NUMBER,
                "time": TIME,
                "address": ADDRESS,
                "domain": DOMAIN,
                "message": MESSAGE,
                "size": ("bigint", "bytes of body and properties"),
                "properties": (PROPERTIES.simpleString(), "told for shared queues"),
                "body": ("binary", "where the domain has journal_bodies"),
                "day": DAY,
            },
        ),
        Table(
            "deliveries",
            "How each delivery ended, and how long the message had been in the queue.",
            tuple(t.OUTCOMES),
            t.deliveries,
            {
                "number": NUMBER,
                "time": TIME,
                "address": ADDRESS,
                "domain": DOMAIN,
                "app": APP,
                "message": MESSAGE,
                "session": SESSION,
                "outcome": ("string", ", ".join(t.OUTCOMES.values())),
                "seconds_in_queue": ("double", "since the router had the message"),
                "seconds_to_confirm": ("double", "since it was handed to the session"),
                "day": DAY,
            },
        ),
        Table(
            "subscriptions",
            "Who subscribed to what, from when to when.",
            tuple(t.CHANGES),
            t.subscriptions,
            {
                "since": ("timestamp", "when it began"),
                "until": ("timestamp", "when it ended or was changed; null while it lasts"),
                "family": ("string", "queue, exact, pattern or sharded"),
                "address": ("string", "the queue, channel or pattern"),
                "app": APP,
                "session": SESSION,
                "expression": ("string", "null for everything"),
                "priority": ("bigint", "the higher gets the message"),
                "day": ("date", "the day in UTC on which it began"),
            },
            t.spans,
            "events",
            {
                "number": "bigint",
                "time": "timestamp",
                "family": "string",
                "address": "string",
                "app": "string",
                "session": "bigint",
                "event": "string",
                "place": "bigint",
                "places": "bigint",
                "expression": "string",
                "priority": "bigint",
                "until": "timestamp",
            },
            t.lasting,
            t.folded,
        ),
        Table(
            "minutes",
            "What happened in each minute to each queue.",
            tuple(t.COUNTED.values()),
            t.minutes,
            {
                "minute": ("timestamp", "when the minute began"),
                "address": ADDRESS,
                **{name: _count(name) for name in t.COUNTED},
                "redelivered": ("bigint", "messages delivered after a session was lost with them"),
                "bytes": ("bigint", "accepted"),
                "p50": ("double", "seconds to confirm: half of them took no longer"),
                "p95": ("double", "the same for 95 of 100"),
                "p99": ("double", "the same for 99 of 100"),
                "day": DAY,
            },
            t.whole_minutes,
            "parts",
            {
                "minute": "timestamp",
                "address": "string",
                **dict.fromkeys((*t.COUNTED, "redelivered", "bytes"), "bigint"),
                "sketch": "binary",
            },
        ),
        Table(
            "matches",
            "How the expression of each subscription judged the messages of its queue; of a queue"
            f" with more, the first {match_counts.EXPRESSIONS_MAX:,} expressions.",
            (f.Accepted,),
            None,
            {
                "hour": ("timestamp", "when the hour began in which they were accepted"),
                "address": ADDRESS,
                "app": APP,
                "expression": ("string", "of one or more subscriptions"),
                "matched": ("bigint", "messages for which it is true"),
                "missed": ("bigint", "messages for which it is false"),
                "no_property": ("bigint", "undecided: the message lacks a property"),
                "wrong_type": ("bigint", "undecided: an operand is of a wrong type"),
                "no_result": ("bigint", "undecided: division by zero, or beyond 64 bits"),
                "day": DAY,
            },
            match_counts.whole,
            "parts",
        ),
        Table(
            "channels",
            "What was published on each channel in each second.",
            (f.ChannelCounted,),
            t.channels,
            {
                "number": NUMBER,
                "time": ("timestamp", "the end of the second"),
                "channel": ("string", "the busiest by name, the rest as *other*"),
                "channels": ("bigint", "how many channels the row is for"),
                "published": ("bigint", "messages"),
                "bytes": ("bigint", "of their bodies"),
                "deliveries": ("bigint", "messages times receivers"),
                "receivers_max": ("bigint", "receivers of the message that had the most"),
                "day": DAY,
            },
        ),
        Table(
            "displacements",
            "Sessions that lost a queue or a service to another.",
            (f.Displaced, f.ServiceDisplaced),
            t.displacements,
            {
                "number": NUMBER,
                "time": TIME,
                "address": ADDRESS,
                "service": ("string", "the service in hex, if it was one"),
                "session": SESSION,
                "by": ("bigint", "the session that has it now"),
                "queues": ("bigint", "how many queues the service has"),
                "day": DAY,
            },
        ),
        Table(
            "pressure",
            "Who was slow, who had to wait, what filled up.",
            tuple(t.PRESSURE),
            t.pressure,
            {
                "number": NUMBER,
                "time": TIME,
                "event": ("string", ", ".join(t.PRESSURE.values())),
                "address": ADDRESS,
                "app": APP,
                "session": SESSION,
                "by": ("bigint", "the session that was waited for"),
                "name": ("string", "of the session, queue, domain or limit"),
                "state": ("string", "normal, high or full; or the reason"),
                "amount": ("bigint", "bytes, messages or the limit, as the event has it"),
                "seconds": ("double", "how long"),
                "detail": ("string", "where the messages are"),
                "day": DAY,
            },
        ),
        Table(
            "services",
            "What happened to services and their queues.",
            tuple(t.SERVICES),
            t.services,
            {
                "number": NUMBER,
                "time": TIME,
                "event": ("string", ", ".join(t.SERVICES.values())),
                "service": ("string", "the service in hex; null if a queue became nobody's"),
                "address": ADDRESS,
                "session": SESSION,
                "by": ("bigint", "the session that has it now"),
                "queues": ("bigint", "how many queues the service has"),
                "drift": ("string", "how the session's tally differed"),
                "day": DAY,
            },
        ),
        Table(
            "tokens",
            "What happened to tokens of a notification server.",
            tuple(t.TOKENS),
            t.tokens,
            {
                "number": NUMBER,
                "time": TIME,
                "event": ("string", ", ".join(t.TOKENS.values())),
                "token": TOKEN,
                "provider": ("string", "who brings pushes to the device"),
                "status": ("string", "the one it has now"),
                "notifiers": ("bigint", "those that went with it"),
                "day": DAY,
            },
        ),
        Table(
            "notifiers",
            "What a notification server subscribed to, and what became of it.",
            tuple(t.NOTIFIERS),
            t.notifiers,
            {
                "number": NUMBER,
                "time": TIME,
                "event": ("string", ", ".join(t.NOTIFIERS.values())),
                "router": ("string", "its host and port"),
                "notifier": ("string", "the digest of a notifier in hex; null if it is many"),
                "token": TOKEN,
                "status": ("string", "why it ended"),
                "notifiers": ("bigint", "how many the row is for"),
                "day": DAY,
            },
        ),
        Table(
            "notices",
            "Notices that came to a notification server in each second.",
            (n.NoticesCounted,),
            t.notices,
            {
                "number": NUMBER,
                "time": ("timestamp", "the end of the second"),
                "outcome": ("string", "pushed, no_token or inactive"),
                "notices": ("bigint", "how many"),
                "day": DAY,
            },
        ),
        Table(
            "pushes",
            "Pushes of a notification server in each second.",
            (n.PushesCounted,),
            t.pushes,
            {
                "number": NUMBER,
                "time": ("timestamp", "the end of the second"),
                "provider": ("string", "who brought them, or did not"),
                "push": ("string", "code, notices or check"),
                "outcome": ("string", "delivered, dead, failed, later and others"),
                "pushes": ("bigint", "how many"),
                "day": DAY,
            },
        ),
    )
}
