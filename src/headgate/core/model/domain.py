"""A domain: the mode and the bounds that its queues share."""

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
"""Of a domain's apps, where people are told which there are."""

SMP_DOMAIN = "smp"
"""The domain of the queues of SimpleX clients, which is in no file: its settings are in [smp]."""


class Mode(Enum):
    """The mode of a domain: what its queues are like."""

    EXCLUSIVE = "exclusive"
    """One subscriber, displaced by the next; one message unconfirmed at a time."""
    PRIORITY = "priority"
    """Each message to one of the consumers with the highest priority."""
    FANOUT = "fanout"
    """Each message to one consumer of every app."""
    BROADCAST = "broadcast"
    """Each message to every consumer of the moment; nothing is stored."""


@value
class Domain:
    """A limit of None is no limit. A limit of N admits N."""

    name: str
    mode: Mode
    # S003-11: what is no fanout has one app, without a name, and its filters hold for everybody.
    apps: tuple[AppId, ...] = (WHOLE,)
    """Only a fanout domain has others than the one without a name."""

    # S003-8: of the configuration, and never of a session.
    filters: Mapping[AppId, tuple[Predicate, ...]] = EMPTY
    """The application subscriptions: an app gets what at least one of its own is true for,
    and everything if it has none."""

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
    """Seconds between a consumer's last message and one that consumers were lost with, if that has
    three or four attempts left; 0 is at once."""
    suspicious_delay_high: float = 3.0
    """The same for a message with one or two attempts left."""
    max_consumers: int = 0
    """Sessions that read one queue; 0 is any number."""
    max_producers: int = 0
    """Sessions that write to one queue; 0 is any number."""
    max_queues: int = 10_000
    """Queues that clients may create in the domain; 0 is any number."""
    queue_ttl: float = 3600.0
    """Seconds after which a queue is removed that nobody has open, that holds no message and
    remembers no id; 0 is never."""
    max_idle_time: float = 0.0
    """Seconds without progress after which a queue with undelivered messages is called
    stuck; 0 is never."""
    deduplication_time: float = 300.0
    """Seconds for which a message id is remembered, so that a repeated one is not stored."""
    marks_quota: bool = False
    """Exclusive queues only: the message that goes beyond the quota leaves a marker, and nothing
    more is taken until all has been read."""
    journal_bodies: bool = False
    """Whether bodies may be written to the journal."""

    readers: tuple[str, ...] | None = None
    """The clients that may read queues of the domain, by the names that they proved; None is
    whoever got in."""
    writers: tuple[str, ...] | None = None
    """Those that may write to them."""
    creators: tuple[str, ...] | None = None
    """Those that may open a queue that is not there, which makes it."""

    streams: tuple[str, ...] = ()
    """Keys of Redis clients that are queues of the domain, as patterns."""
    groups: str = "fixed"
    """Where the groups of such a stream come from: fixed ones are the apps of the domain, and where
    they are open clients make more of them, each for one stream."""
    group: str = "default"
    """What the only group is called, in a domain without apps."""
    consumer_grace: float | None = 30.0
    """Seconds after its last connection is gone until what a named consumer holds goes to others;
    "never" as in Redis."""
    body_field: str = ""
    """The field of a stream that is the body of the message; empty to find it by rule."""
    fields: Mapping[str, PropertyType] = EMPTY
    """Types of fields of a stream. Others are integers, booleans or text by how they look."""

    properties: Mapping[str, BodyPath] = EMPTY
    """Properties that are read out of JSON bodies of Redis clients, with the path and perhaps the
    type of each."""
    envelope: str = ""
    """What is around such bodies: nothing, or the envelope of FastStream."""
    feeds: tuple[ChannelFeed, ...] = ()
    """Channels that feed the domain: what Redis clients publish there is in its queues as well."""
    speaks: str = ""
    """The channel on which every message of the domain is heard by Redis clients, with properties
    in braces, such as prices.{symbol}; empty for none."""
    speaks_as: str = "body"
    """What they hear: the body, or a JSON text with id, queue, properties and body."""
    max_groups: int = 16
    """Groups that clients may make for one stream, where groups are open."""
    group_idle: float = 7 * DAY
    """Seconds after which such a group is dropped that nobody reads by; 0 is never."""
    keep_messages: int = 0
    """Messages of one queue that are kept when every app has confirmed them: a history."""
    keep_time: float = 0.0
    """Seconds for which they are kept; 0 is as long as there is room. With both 0 nothing is."""
    dead_letter: str = ""
    """Where messages go that consumers were lost with too often: a domain, or DOMAIN/QUEUE."""

    @property
    def is_open(self) -> bool:
        """Whether clients make groups."""
        return self.groups == "open"

    @property
    def keeps(self) -> bool:
        """Whether messages stay when every app has confirmed them."""
        return bool(self.keep_messages or self.keep_time)

    def dead_letters_of(self, queue: QueueId) -> tuple[str, QueueId] | None:
        """The domain and the queue for what is given up of a queue; by itself a domain has a queue
        of the same name."""
        if not self.dead_letter:
            return None
        domain, _, name = self.dead_letter.partition("/")
        own = name.encode() or queue.rpartition(b"/")[2]
        return domain, QueueId(f"{SCHEME}{domain}/".encode() + own)

    def app_of(self, group: str) -> AppId | None:
        """The app that a group is; none if there is no such group."""
        if self.mode is Mode.FANOUT:
            return group if group in self.apps or (self.is_open and group) else None
        return WHOLE if group == self.group else None

    def group_of(self, app: AppId) -> str:
        """The group that an app is."""
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
        """A domain whose messages go to everybody who is there, and are not stored."""
        return cls(name, Mode.BROADCAST, **settings)

    def check_rights(self, client: str, *, read: bool, write: bool, create: bool) -> None:
        """Raise if a client may not do one of these. One without a name has proved none, and is on
        no list."""
        for is_asked, clients, verb in (
            (read, self.readers, "read"),
            (write, self.writers, "write to"),
            (create, self.creators, "create"),
        ):
            if is_asked and clients is not None and client not in clients:
                raise NoRight(client, verb, self.name)

    def known_apps(self) -> str:
        """The apps by name, for people: some of them if they are many."""
        names = [app for app in self.apps if app != WHOLE]
        more = [f"and {len(names) - APPS_NAMED} more"] if len(names) > APPS_NAMED else []
        return ", ".join([*names[:APPS_NAMED], *more])

    def wants(self, app: AppId, properties: Properties) -> bool:
        """Whether an app references a message with these properties.

        A run-time error is no match. Evaluated once, when the message arrives.
        """
        filters = self.filters.get(app)
        # S003-7, S003-26, BMQ-67, BMQ-69: one that is true is enough; without any, everything.
        return not filters or any(f.matches(properties) for f in filters)
