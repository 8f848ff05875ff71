"""A domain: the mode and the limits that its queues share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Self

from headgate.core.model.binding import ChannelFeed
from headgate.core.model.body_paths import BodyPath
from headgate.core.model.ids import WHOLE, AppId, QueueId
from headgate.core.model.limits import MiB
from headgate.core.model.message import Properties
from headgate.core.model.property_type import PropertyType
from headgate.core.model.queue_uri import SCHEME
from headgate.core.model.value import EMPTY, value
from headgate.errors import NoRight
from headgate.expr.predicate import Predicate

DAY = 86_400.0

APPS_NAMED = 20
"""Apps of a domain that are named in messages to people."""

SMP_DOMAIN = "smp"
"""The domain of the queues of SimpleX clients, which is not in the file: its settings are in
[smp]."""


class Mode(Enum):
    """The mode of a domain: how its queues deliver."""

    EXCLUSIVE = "exclusive"
    """One subscriber, displaced by the next; one message unconfirmed at a time."""
    PRIORITY = "priority"
    """Each message to one of the consumers with the highest priority."""
    FANOUT = "fanout"
    """Each message to one consumer of every app."""
    BROADCAST = "broadcast"
    """Each message to every present consumer; nothing is stored."""


@value
class Domain:
    """The settings that the queues of a domain share.

    A value: a reload replaces it. A limit of None is no limit, and a limit of N admits N.
    """

    name: str
    mode: Mode
    # S003-11: a domain that is not fanout has one app, without a name, and its filters apply to
    # all.
    apps: tuple[AppId, ...] = (WHOLE,)
    """Only a fanout domain has named apps."""

    # S003-8: set by the configuration, never by a session.
    filters: Mapping[AppId, tuple[Predicate, ...]] = EMPTY
    """Application subscriptions: an app gets the messages that match at least one of its
    expressions, and all messages if it has none."""

    max_messages: int | None = 100_000
    """Messages in one queue."""
    max_bytes: int | None = 256 * MiB
    """Bytes in one queue."""
    domain_max_messages: int | None = 1_000_000
    """Messages in all queues of the domain."""
    domain_max_bytes: int | None = 1024 * MiB
    """Bytes in all queues of the domain."""

    message_ttl: float | None = 7 * DAY
    """Seconds after which a message is removed, delivered or not."""
    max_delivery_attempts: int = 0
    """Crashes of consumers that a message survives, per app; 0 is any number."""
    suspicious_delay_low: float = 1.0
    """Seconds between a consumer's last message and one that may have crashed consumers, if that
    has three or four attempts left; 0 is at once."""
    suspicious_delay_high: float = 3.0
    """The same for a message with one or two attempts left."""
    max_consumers: int = 0
    """Sessions that read one queue; 0 is any number."""
    max_producers: int = 0
    """Sessions that write to one queue; 0 is any number."""
    max_queues: int = 10_000
    """Queues that clients may create in the domain; 0 is any number."""
    queue_ttl: float = 3600.0
    """Seconds after which a queue is removed that is not open, holds no message and remembers no
    id; 0 is never."""
    max_idle_time: float = 0.0
    """Seconds without progress after which a queue with undelivered messages counts as stuck; 0 is
    never."""
    deduplication_time: float = 300.0
    """Seconds for which a message id is remembered, so that a repeated one is not stored."""
    marks_quota: bool = False
    """Exclusive queues only: the message that exceeds the quota leaves a marker, and no more are
    accepted until all have been read."""
    journal_bodies: bool = False
    """Whether bodies may be written to the journal."""

    readers: tuple[str, ...] | None = None
    """The clients that may read queues of the domain, by the names that they proved; None is every
    client."""
    writers: tuple[str, ...] | None = None
    """The clients that may write to them."""
    creators: tuple[str, ...] | None = None
    """The clients that may make queues by opening them."""

    streams: tuple[str, ...] = ()
    """Keys of Redis clients that are streams of the domain, as patterns."""
    groups: str = "fixed"
    """Where the groups of such a stream come from: fixed ones are the apps of the domain; if open,
    clients make more, each for one stream."""
    group: str = "default"
    """The name of the only group, in a domain without apps."""
    consumer_grace: float | None = 30.0
    """Seconds after its last connection is gone until other consumers get the messages that a named
    consumer holds; "never" as in Redis."""
    body_field: str = ""
    """The field of a stream entry that is the body of the message; empty to find it by rule."""
    fields: Mapping[str, PropertyType] = EMPTY
    """Types of fields of a stream entry. Others are integers, booleans or text, by their form."""

    properties: Mapping[str, BodyPath] = EMPTY
    """Properties read from JSON bodies of Redis clients, each with its path and optionally its
    type."""
    envelope: str = ""
    """The envelope around such bodies: none, or that of FastStream."""
    feeds: tuple[ChannelFeed, ...] = ()
    """Channels that feed the domain: messages that Redis clients publish there go into its queues
    as well."""
    speaks: str = ""
    """The channel on which Redis clients get every message of the domain, with properties in
    braces, such as prices.{symbol}; empty for none."""
    speaks_as: str = "body"
    """The form of the messages: the body, or a JSON text with id, queue, properties and body."""
    max_groups: int = 16
    """Groups that clients may make for one stream, where groups are open."""
    group_idle: float = 7 * DAY
    """Seconds after which such a group is removed that is not read; 0 is never."""
    keep_messages: int = 0
    """Messages of one queue that are kept after every app has confirmed them: its history."""
    keep_time: float = 0.0
    """Seconds for which they are kept; 0 is as long as there is room. If this and `keep_messages`
    are 0, none are kept."""
    dead_letter: str = ""
    """Where messages without attempts left go: a domain, or DOMAIN/QUEUE."""

    @property
    def is_open(self) -> bool:
        """Whether clients can make groups."""
        return self.groups == "open"

    @property
    def keeps(self) -> bool:
        """Whether messages are kept after every app has confirmed them."""
        return bool(self.keep_messages or self.keep_time)

    def dead_letters_of(self, queue: QueueId) -> tuple[str, QueueId] | None:
        """The domain and the queue for poisoned messages of a queue; if only a domain is set, the
        queue has the same name."""
        if not self.dead_letter:
            return None
        domain, _, name = self.dead_letter.partition("/")
        own = name.encode() or queue.rpartition(b"/")[2]
        return domain, QueueId(f"{SCHEME}{domain}/".encode() + own)

    def app_of(self, group: str) -> AppId | None:
        """The app with a group's name; None if there is no such group."""
        if self.mode is Mode.FANOUT:
            return group if group in self.apps or (self.is_open and group) else None
        return WHOLE if group == self.group else None

    def group_of(self, app: AppId) -> str:
        """The name of an app's group."""
        return app if self.mode is Mode.FANOUT else self.group

    @classmethod
    def exclusive(cls, name: str, **settings: Any) -> Self:  # noqa: ANN401
        """A domain whose queues have one subscriber each."""
        return cls(name, Mode.EXCLUSIVE, **settings)

    @classmethod
    def priority(cls, name: str, **settings: Any) -> Self:  # noqa: ANN401
        """A domain whose messages each go to one consumer."""
        return cls(name, Mode.PRIORITY, **settings)

    @classmethod
    def fanout(cls, name: str, *apps: AppId, **settings: Any) -> Self:  # noqa: ANN401
        """A domain whose messages go to one consumer of each of these apps."""
        return cls(name, Mode.FANOUT, apps, **settings)

    @classmethod
    def broadcast(cls, name: str, **settings: Any) -> Self:  # noqa: ANN401
        """A domain whose messages go to all present consumers, and are not stored."""
        return cls(name, Mode.BROADCAST, **settings)

    def check_rights(self, client: str, *, read: bool, write: bool, create: bool) -> None:
        """Raise if a client lacks one of these rights. A client without a name has proved none, and
        is on no list."""
        for is_asked, clients, verb in (
            (read, self.readers, "read"),
            (write, self.writers, "write to"),
            (create, self.creators, "create"),
        ):
            if is_asked and clients is not None and client not in clients:
                raise NoRight(client, verb, self.name)

    def known_apps(self) -> str:
        """The names of the apps, for people: some of them if they are many."""
        names = [app for app in self.apps if app != WHOLE]
        more = [f"and {len(names) - APPS_NAMED} more"] if len(names) > APPS_NAMED else []
        return ", ".join([*names[:APPS_NAMED], *more])

    def wants(self, app: AppId, properties: Properties) -> bool:
        """Whether an app references a message with these properties.

        A run-time error is no match. Evaluated once, when the message arrives.
        """
        filters = self.filters.get(app)
        # S003-7, S003-26, BMQ-67, BMQ-69: one true filter is enough; without filters, everything.
        return not filters or any(f.matches(properties) for f in filters)
