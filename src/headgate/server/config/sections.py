"""The sections of the configuration.

The dataclasses are the definition: a field's annotation says how its value is written, its
default is the default, and the text under it is the comment in ``headgate config default``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, TypeAlias

from headgate.core.model.domain import SMP_DOMAIN, Domain, Mode
from headgate.core.model.limits import KiB, Limits, MiB
from headgate.core.model.value import EMPTY
from headgate.server.config.hosts import is_loopback
from headgate.server.config.kinds import (
    Choice,
    Cores,
    Duration,
    FileName,
    Flag,
    Secret,
    Secrets,
    SecretText,
    Size,
    StoreUrl,
    Text,
    Texts,
    Unlimited,
    Whole,
)
from headgate.server.config.tree import Entry
from headgate.store.backends import backend_of

HostName: TypeAlias = Annotated[
    str, Text('a host name or an address, such as "127.0.0.1"', r"[A-Za-z0-9_.:%-]{1,255}")
]
Port: TypeAlias = Annotated[int, Whole(0, 65_535)]
OwnLimit: TypeAlias = Annotated[int | None, Unlimited(Size(), "limits")]
"""A limit of one wire; unless it is set, that of [limits]."""
Seconds: TypeAlias = Annotated[float, Duration()]
Count: TypeAlias = Annotated[int, Whole()]
Switch: TypeAlias = Annotated[bool, Flag()]
Hidden: TypeAlias = Annotated[Secret | None, SecretText()]
CLIENT_NAME = r"[A-Za-z0-9_.@-]{1,64}"
"""Of a client with a token. A colon would end it where the client says both."""
USER_NAME = r"[^\s\x00-\x1f\x7f\ud800-\udfff]+"
FilePath: TypeAlias = Annotated[str, FileName()]
FolderPath: TypeAlias = Annotated[str, Text("the path of a folder")]
OWNER_TIMEOUT_MIN = 1.0


@dataclass(frozen=True, slots=True)
class Conflict:
    """A value that does not go with others of its section: an error, or else a warning."""

    key: str
    text: str
    is_error: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where queues and messages are kept."""

    url: Annotated[str, StoreUrl()] = "sqlite:queues.db"
    """"sqlite:FILE", relative to the state directory, or "postgresql://USER@HOST/DATABASE", or
    "memory:", which forgets."""
    standby: Switch = False
    """Whether a router waits while another has the database, and takes over when that is gone.
    Set it for both. Only with PostgreSQL."""
    owner_timeout: Seconds = 3.0
    """An owner that the database has not heard for so long may lose it to one that waits. At least
    a second."""

    def conflicts(self) -> Iterator[Conflict]:
        """Only what other machines can reach can be taken over by one of them."""
        if self.standby and not backend_of(self.url).is_shared:
            text = 'needs a store that two routers reach: url = "postgresql://USER@HOST/DATABASE"'
            yield Conflict("standby", text)
        if self.owner_timeout < OWNER_TIMEOUT_MIN:
            text = "an owner is heard once a second: at least a second, better three"
            yield Conflict("owner_timeout", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Processes that share the work of the router."""

    count: Annotated[int | str, Cores()] = 1
    """1: one process. More: clients are spread over so many; queues, keys and the store are in one
    of them. "cores" is as many as the machine has."""
    timeout: Annotated[int, Whole(2, 3600)] = 5
    """Seconds after which a worker that does not answer is ended and started again."""

    @property
    def number(self) -> int:
        """The number of workers."""
        return self.count if isinstance(self.count, int) else len(os.sched_getaffinity(0))

    def conflicts(self, listen: Listen, domains: Mapping[str, Domain]) -> Iterator[Conflict]:
        """Settings that several workers do not support yet are refused, with advice."""
        if self.number == 1:
            return
        for name, domain in domains.items():
            if domain.feeds or domain.speaks:
                text = f"channels of the domain {name} (feeds, speaks) need one process: remove"
                yield Conflict("count", f"{text} them, or set it to 1")
        if listen.resp is not None and listen.resp.cluster:
            text = "listen.resp.cluster needs one process: switch it off, or set it to 1"
            yield Conflict("count", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The certificate of a listener. SIGHUP makes the router read it again."""

    certificate: FilePath = "server.crt"
    """The certificate and its chain, PEM. Relative to this file."""
    key: FilePath = "server.key"
    """The private key, PEM. Relative to this file."""
    client_ca: Annotated[str | None, FileName(example="clients.crt")] = None
    """Certificates that sign those of clients, PEM. With it a client needs such a certificate, and
    is known by the common name in it; one that has a token needs none. Relative to this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenSmp:
    """Queues of SimpleX clients, who know the router by the fingerprint of its identity. Without
    the section nothing listens."""

    host: HostName = "127.0.0.1"
    """The address to listen on."""
    port: Port = 5223
    """0 picks a free one."""

    tls = None
    """Of its own: [smp] says where its certificates are."""

    def conflicts(self, limits: Limits) -> Iterator[Conflict]:
        """Clients know the router by its fingerprint, and each queue by its keys: none."""
        yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenResp:
    """Channels of Redis clients. Without the section nothing listens."""

    host: HostName = "127.0.0.1"
    """The address to listen on."""
    port: Port = 6379
    """0 picks a free one."""
    password: Hidden = None
    """The password of the user default, for AUTH."""
    acl_file: Annotated[str | None, Text("the path of a file", example="users.acl")] = None
    """A list of users as Redis keeps it, relative to the state directory. It is read at the start
    and by ACL LOAD, and written by ACL SAVE."""
    users: Annotated[Mapping[str, Secret], Secrets(USER_NAME)] = EMPTY
    """Users by name, each with its rules as ACL SETUSER takes them. Changes by ACL SETUSER are
    forgotten at a restart; to keep them, use acl_file instead."""
    auth_timeout: Seconds = 10.0
    """A client that has to say who it is, and has not after so long, is closed; 0 is never."""
    cluster: Switch = False
    """Whether clients are told that this is a cluster: sharded channels only."""
    slow_session: Annotated[str, Choice("wait", "close", "drop-oldest")] = "wait"
    """The policy for a slow session: publishers to it wait, or it is closed, or it loses its oldest
    messages."""
    publish_buffer_limit: OwnLimit = None
    """Bytes in all mailboxes, those of other wires included, above which those who publish to slow
    sessions wait. "limits" is budget_bytes of [limits]. CONFIG SET changes it until a restart, as
    the two that follow, and only for sessions of Redis clients."""
    mailbox_soft: OwnLimit = None
    """Above it a session is slow, and its clock starts. "limits" is mailbox_bytes_soft."""
    mailbox_hard: OwnLimit = None
    """Above it those who publish to the session wait. "limits" is mailbox_bytes_hard."""
    slow_timeout: Seconds = 60.0
    """A session that is slow and has read nothing for so long is closed, and those who wait for
    it go on; 0 is never."""
    async_dispatch_quota: Annotated[int, Whole(0)] = 100
    """Items of a mailbox that are written in a row before others get their turn; 0 is all."""
    notify_keyspace_events: Annotated[str, Text('"" or "Ex"', r"|[Ee][Xx]|[Xx][Ee]")] = ""
    """"Ex" publishes the keys that expire."""
    tls: Tls | None = None

    def conflicts(self, limits: Limits) -> Iterator[Conflict]:
        """Beyond loopback clients have to show who they are."""
        knows_users = self.password is not None or self.users or self.acl_file is not None
        has_certificates = self.tls is not None and self.tls.client_ca is not None
        if not is_loopback(self.host) and not knows_users and not has_certificates:
            yield Conflict(
                "host",
                f"{self.host} is beyond loopback, where a password is needed:"
                " set listen.resp.password",
            )
        if self.users and self.acl_file is not None:
            yield Conflict("acl_file", "users are here or in a file, not both")
        _, soft, hard = self.mailboxes(limits)
        if soft > hard:
            key = "mailbox_hard" if self.mailbox_soft is None else "mailbox_soft"
            yield Conflict(key, "mailbox_soft is above mailbox_hard")

    def mailboxes(self, limits: Limits) -> tuple[int, int, int]:
        """The budget, and the soft and the hard limit of a mailbox, of sessions of this wire."""
        own = (
            (self.publish_buffer_limit, limits.budget_bytes),
            (self.mailbox_soft, limits.mailbox_bytes_soft),
            (self.mailbox_hard, limits.mailbox_bytes_hard),
        )
        budget, soft, hard = (of_all if mine is None else mine for mine, of_all in own)
        return budget, soft, hard


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
    clients: Annotated[Mapping[str, Secret], Secrets(CLIENT_NAME)] = EMPTY
    """The token of each client, by its name. With any, a client says one or is refused. Beyond
    loopback clients need tokens, or certificates: client_ca in [listen.bmq.tls]."""
    insecure: Switch = False
    """Let everybody in, beyond loopback too."""
    tls: Tls | None = None

    def conflicts(self, limits: Limits) -> Iterator[Conflict]:
        """Beyond loopback clients have to show who they are, unless everybody may come in."""
        is_beyond = not is_loopback(self.host)
        has_certificates = self.tls is not None and self.tls.client_ca is not None
        knows_clients = bool(self.clients) or has_certificates
        if self.insecure and knows_clients:
            yield Conflict(
                "insecure",
                "lets everybody in, and clients or client_ca does not: remove one of them",
            )
        if is_beyond and not knows_clients and not self.insecure:
            yield Conflict(
                "host",
                f"{self.host} is beyond loopback, where clients have to say who they are:"
                " set listen.bmq.clients (tokens) or listen.bmq.tls.client_ca (certificates),"
                " or listen.bmq.insecure = true to let everybody in",
            )
        if is_beyond and self.insecure:
            text = f"everybody who reaches {self.host} may read and write every queue"
            yield Conflict("host", text, is_error=False)
        elif is_beyond and self.tls is None:
            text = "tokens go over the network as they are; set listen.bmq.tls"
            yield Conflict("host", text, is_error=False)


ListenSection: TypeAlias = ListenSmp | ListenResp | ListenBmq


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Listeners that clients connect to: a section for each wire."""

    smp: ListenSmp | None = None
    resp: ListenResp | None = None
    bmq: ListenBmq | None = None

    def each(self) -> dict[str, ListenSection]:
        """The listeners that the configuration has, by name."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: listen for name, listen in found.items() if listen is not None}


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
    """The password for creating a queue; without one everybody may."""
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
    """Asked for as "Authorization: Bearer TOKEN", by everything but /healthz and the status code
    of /readyz. If it is not set, one is made at the first start, in the file admin.token of the
    state directory."""
    names: Annotated[tuple[str, ...], Texts()] = ()
    """Host names under which clients reach the port, besides host and localhost. Requests under
    another name are refused: a web page could have made them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterAdmin(Admin):
    """Health, metrics, the API and the page over HTTP."""

    operator_token: Hidden = None
    """The token of operators, who may act: close sessions, empty queues, reload, drain. Without it
    there are no actions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Settings of the desk: what the API and the page show."""

    recent: Annotated[int, Whole(0, 5000)] = 500
    """Messages of each domain whose properties are kept in memory, to try expressions on; 0 is
    none. Bodies are not kept."""
    bodies: Switch = False
    """Whether a tail may show bodies of messages, to whoever knows a token."""
    tables: Annotated[str | None, Text("the path of a folder", example="tables")] = None
    """Where the pipeline keeps its tables, relative to the state directory, if that is on this
    machine: then the API says how it is doing. Without it, the folder "pipeline" there, if there
    is one."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Configuration that every server of Headgate has."""

    directory: Path
    """The state directory: everything that the server writes is in it."""
    admin: Admin = field(default_factory=Admin)
    journal: Journal = field(default_factory=Journal)
    log: Log = field(default_factory=Log)
    source: Path | None = None
    """The file, if there is one."""
    entries: tuple[Entry, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()
    """Warnings: settings that were accepted and probably not meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(ServerConfig):
    """The whole configuration of a router."""

    admin: RouterAdmin = field(default_factory=RouterAdmin)
    desk: Desk = field(default_factory=Desk)
    store: Store = field(default_factory=Store)
    workers: Workers = field(default_factory=Workers)
    listen: Listen = field(default_factory=Listen)
    smp: Smp = field(default_factory=Smp)
    limits: Limits = field(default_factory=Limits)
    domains: Mapping[str, Domain] = field(default_factory=dict)

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
