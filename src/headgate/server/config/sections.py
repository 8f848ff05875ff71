"""The sections of the configuration, and the tree of keys that follows from them.

The dataclasses are the definition: a field's annotation says how its value is written, its
default is the default, and the text under it is the comment in ``headgate config default``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from headgate.core.domain import SMP_DOMAIN, Domain, Mode
from headgate.core.limits import KiB, Limits, MiB
from headgate.server.config.kinds import (
    Choice,
    Duration,
    Flag,
    Kind,
    Secret,
    SecretText,
    Size,
    StoreUrl,
    Subscriptions,
    Text,
    Texts,
    Unlimited,
    Whole,
)

HostName: TypeAlias = Annotated[
    str, Text('a host name or an address, such as "127.0.0.1"', r"[A-Za-z0-9_.:%-]{1,255}")
]
Port: TypeAlias = Annotated[int, Whole(0, 65_535)]
Bytes: TypeAlias = Annotated[int, Size()]
Seconds: TypeAlias = Annotated[float, Duration()]
Count: TypeAlias = Annotated[int, Whole()]
Switch: TypeAlias = Annotated[bool, Flag()]
Hidden: TypeAlias = Annotated[Secret | None, SecretText()]
FilePath: TypeAlias = Annotated[str, Text("the path of a file")]
FolderPath: TypeAlias = Annotated[str, Text("the path of a folder")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where queues and messages are kept."""

    url: Annotated[str, StoreUrl()] = "sqlite:queues.db"
    """"sqlite:FILE", relative to the state directory, or "memory:", which forgets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The certificate of a listener."""

    certificate: FilePath = "server.crt"
    """The certificate and its chain, PEM."""
    key: FilePath = "server.key"
    """The private key, PEM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenSmp:
    """Queues of SimpleX clients, who know the router by the fingerprint of its identity. Without
    the section nothing listens."""

    host: HostName = "127.0.0.1"
    """The address to listen on."""
    port: Port = 5223
    """0 picks a free one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenResp:
    """Channels of Redis clients. Without the section nothing listens."""

    host: HostName = "127.0.0.1"
    """The address to listen on."""
    port: Port = 6379
    """0 picks a free one."""
    password: Hidden = None
    """What clients say with AUTH."""
    workers: Annotated[int, Whole(1, 256)] = 1
    """Processes that share the listener."""
    cluster: Switch = False
    """Whether clients are told that this is a cluster: sharded channels only."""
    slow_session: Annotated[str, Choice("wait", "close", "drop-oldest")] = "wait"
    """What happens to those who publish to a slow session: they wait, or the session is
    closed, or it loses its oldest messages."""
    publish_buffer_limit: Bytes = 128 * MiB
    """Bytes in the mailboxes of all sessions of one worker."""
    mailbox_soft: Bytes = 8 * MiB
    """Above it a session is slow, and its clock starts."""
    mailbox_hard: Bytes = 32 * MiB
    """Above it those who publish to the session wait."""
    slow_timeout: Seconds = 0.0
    """A session that is slow and has read nothing for so long is closed; 0 is never."""
    async_dispatch_quota: Annotated[int, Whole(0)] = 100
    """Items of a mailbox that are written in a row before others get their turn; 0 is all."""
    notify_keyspace_events: Annotated[str, Text('"" or "Ex"', r"|[Ee][Xx]|[Xx][Ee]")] = ""
    """"Ex" publishes the keys that expire."""
    tls: Tls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenBmq:
    """Queues of BlazingMQ clients. Without the section nothing listens."""

    host: HostName = "127.0.0.1"
    """The address to listen on."""
    port: Port = 30114
    """0 picks a free one."""
    heartbeat: Seconds = 3.0
    """A client that said nothing for so long is asked for a sign of life; 0 is never."""
    heartbeats_missed: Annotated[int, Whole(1, 1000)] = 10
    """So many times in a row; then it is gone."""
    tls: Tls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """What clients connect to."""

    smp: ListenSmp | None = None
    resp: ListenResp | None = None
    bmq: ListenBmq | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Smp:
    """Queues as SimpleX has them."""

    queue_quota: Annotated[int, Whole(1)] = 128
    """Messages in one queue."""
    message_ttl: Annotated[float | None, Unlimited(Duration())] = 21 * 86_400.0
    """After it a message is removed, delivered or not."""
    end_flush: Seconds = 1.0
    """How long ENDs of one session are collected before they are sent."""
    notification_flush: Seconds = 1.0
    """How long notifications are collected before they are sent."""
    create_queues: Switch = True
    """Whether clients may make queues at all."""
    create_password: Hidden = None
    """What clients say to create a queue; without it everybody may."""
    max_sessions: Count = 0
    """Sessions of this wire; 0 is as many as limits.sessions."""
    handshake_timeout: Seconds = 30.0
    """A session that has not finished its handshake by then is closed."""
    idle_timeout: Seconds = 6 * 3600.0
    """A session that subscribes to nothing and says nothing for so long is closed."""
    identity: FolderPath = "identity"
    """Where the router's certificates are, relative to the state directory. They are made at
    the first start: whoever loses them loses the router's address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """Health, metrics and status over HTTP."""

    host: HostName = "127.0.0.1"
    """Beyond loopback a token is needed."""
    port: Port = 8222
    """0 picks a free one."""
    token: Hidden = None
    """Asked for as "Authorization: Bearer TOKEN", by everything but /healthz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The facts on disk, as Parquet segments. The store "memory:" has no journal."""

    enabled: Switch = True
    """Whether facts are kept at all."""
    directory: FolderPath = "journal"
    """Relative to the state directory."""
    segment_size: Annotated[int, Size(64 * KiB)] = 64 * MiB
    """A segment is sealed at about this size."""
    keep: Annotated[float | None, Unlimited(Duration())] = 7 * 86_400.0
    """Older segments are removed."""
    max_bytes: Annotated[int | None, Unlimited(Size())] = 10 * 1024 * MiB
    """Above it the oldest segments are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Lines on standard error."""

    level: Annotated[str, Choice("debug", "info", "warning", "error")] = "info"
    """The least important line that is written."""
    format: Annotated[str, Choice("auto", "text", "json")] = "auto"
    """"auto" is text on a terminal and JSON elsewhere."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One effective value: its path, its TOML text (None if not set) and where it came from."""

    key: str
    value: str | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration of a router."""

    directory: Path
    """The state directory: everything that the router writes is in it."""
    store: Store = field(default_factory=Store)
    listen: Listen = field(default_factory=Listen)
    smp: Smp = field(default_factory=Smp)
    admin: Admin = field(default_factory=Admin)
    journal: Journal = field(default_factory=Journal)
    log: Log = field(default_factory=Log)
    limits: Limits = field(default_factory=Limits)
    domains: Mapping[str, Domain] = field(default_factory=dict)
    source: Path | None = None
    """The file, if there is one."""
    entries: tuple[Entry, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()
    """What was accepted and probably not meant."""

    def all_domains(self) -> dict[str, Domain]:
        """The domains of the file, and the one of the SMP queues."""
        smp = Domain(
            SMP_DOMAIN,
            Mode.EXCLUSIVE,
            max_messages=self.smp.queue_quota,
            message_ttl=self.smp.message_ttl,
            marks_quota=True,
        )
        return {**self.domains, SMP_DOMAIN: smp}


# The tree of known keys.


@dataclass(frozen=True, slots=True)
class Key:
    kind: Kind
    default: Any


@dataclass(frozen=True, slots=True)
class Group:
    """A table. `make` takes its values; `optional` is None unless something is in it."""

    make: Callable[..., Any]
    members: Mapping[str, Key | Group]
    optional: bool = False
    source: type | None = None
    """The class whose attribute texts are the comments."""


def _group(cls: type, optional: bool = False) -> Group:
    members: dict[str, Key | Group] = {}
    defaults = {f.name: f.default for f in fields(cls)}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if get_origin(hint) is Annotated:
            members[name] = Key(hint.__metadata__[0], defaults[name])
        else:
            members[name] = _group(get_args(hint)[0], optional=True)
    return Group(cls, members, optional, cls)


def _limit(name: str) -> Kind:
    return Size(1) if name.endswith("bytes") or "_bytes_" in name else Whole(1)


DOMAIN_KINDS: dict[str, Kind] = {
    "mode": Choice(*(mode.value for mode in Mode if mode is not Mode.EXCLUSIVE)),
    "apps": Texts(),
    "subscriptions": Subscriptions(),
    "max_messages": Unlimited(Whole()),
    "max_bytes": Unlimited(Size()),
    "domain_max_messages": Unlimited(Whole()),
    "domain_max_bytes": Unlimited(Size()),
    "message_ttl": Unlimited(Duration()),
    "max_delivery_attempts": Whole(),
    "suspicious_delay_low": Duration(),
    "suspicious_delay_high": Duration(),
    "max_consumers": Whole(),
    "max_producers": Whole(),
    "max_queues": Whole(),
    "max_idle_time": Duration(),
    "deduplication_time": Duration(),
    "journal_bodies": Flag(),
}
DOMAIN_DEFAULTS = {f.name: f.default for f in fields(Domain) if f.default is not MISSING} | {
    "mode": Mode.PRIORITY.value,
    "apps": (),
    "subscriptions": {},
}
DOMAIN = Group(
    dict,
    {name: Key(kind, DOMAIN_DEFAULTS[name]) for name, kind in DOMAIN_KINDS.items()},
    source=Domain,
)
DOMAIN_DOCS = {
    "mode": "Who gets a message: one of the best consumers, one consumer of every app, or all.",
    "apps": "The apps of a fanout domain.",
    "subscriptions": "By app, the expressions of which one must be true, or the app does not get"
    ' the message. The app of a domain without apps is "".',
}

KNOWN: dict[str, Key | Group] = {
    "directory": Key(Text("the path of a folder"), "var"),
    "store": _group(Store),
    "listen": Group(
        Listen,
        {
            "smp": _group(ListenSmp, optional=True),
            "resp": _group(ListenResp, optional=True),
            "bmq": _group(ListenBmq, optional=True),
        },
        source=Listen,
    ),
    "smp": _group(Smp),
    "admin": _group(Admin),
    "journal": _group(Journal),
    "log": _group(Log),
    "limits": Group(
        Limits,
        {f.name: Key(_limit(f.name), f.default) for f in fields(Limits)},
        source=Limits,
    ),
}
DOMAINS = "domains"

Path_: TypeAlias = tuple[str, ...]
