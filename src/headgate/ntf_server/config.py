"""The configuration of a notification server: a file of its own, read as the router's is.

It has a state directory, an admin port, a journal and a log of its own, so what it shares with a
router is how its keys are written, not the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from headgate.ntf_server.records.places import FORMS
from headgate.server.config.default import section_lines
from headgate.server.config.kinds import FileName, StoreUrl, Text, Texts
from headgate.server.config.reading import Reading, parsed, path_of, variables
from headgate.server.config.sections import (
    Admin,
    FolderPath,
    HostName,
    Journal,
    Log,
    Port,
    ServerConfig,
    Switch,
)
from headgate.server.config.tree import Group, Key, Tree, group
from headgate.store.backends import POSTGRES, SQLITE

FILE_NAME: Final = "ntf.toml"
"""Read from the current directory when no other file is named."""

ADMIN_PORT: Final = 8223
"""A router beside it has 8222."""

HEAD: Final = """\
# The configuration of a notification server. Every key is shown with its default, behind a #.
#
# An environment variable is stronger than the file: HEADGATE_ADMIN__PORT is port in [admin],
# with two underscores per level.
#
# Sizes are bytes or texts: "8 MiB" is 8 * 1024 * 1024, "8 MB" is 8 * 1000 * 1000.
# Durations are seconds or texts: "500ms", "60s", "5 minutes", "2 hours", "7 days".
# A secret may be "file:PATH", relative to this file, for the text in a file.

# The state directory, relative to this file.
#directory = "ntf"
"""

Id: TypeAlias = Annotated[
    str | None, Text("letters and digits", "[A-Za-z0-9]{1,64}", example="ABC123DEFG")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenNtf:
    """Apps, who know the server by the fingerprint of its identity."""

    host: HostName = "127.0.0.1"
    """The address to listen on: this machine alone, unless it says otherwise."""
    port: Port = 5224
    """0 picks a free one. Apps that are given an address without a port use 443, which most
    systems let only root listen on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NtfListen:
    """The listener that apps connect to."""

    ntf: ListenNtf = field(default_factory=ListenNtf)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPush:
    """Devices of browsers, of UnifiedPush, and programs that take a POST."""

    enabled: Switch = True
    """Whether such devices are taken."""
    contact: Annotated[
        str | None,
        Text(
            "a mailto: or https:// address",
            r"(mailto:|https://)[^\s\"\\\x00-\x1f\x7f\ud800-\udfff]+",
            example="mailto:ops@example.org",
        ),
    ] = None
    """The address that push services write to if something is wrong. If it is not set, it is
    https:// and the name that headgate ntf init was given."""
    key: Annotated[str | None, FileName(example="web_push.key")] = None
    """The private key by which push services know the server, P-256 in PEM. If it is not set, one
    is made at the first start, in the state directory. Devices belong to the key that they were
    registered with. Relative to this file."""
    allow_private: Annotated[tuple[str, ...], Texts()] = ()
    """Hosts of endpoints that may have addresses of a private network, by name. Others may not:
    endpoints are whatever strangers name."""
    ca: Annotated[str | None, FileName(example="push-services.crt")] = None
    """Certificates in PEM that are trusted beside those of the system. Relative to this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apns:
    """Devices of Apple's, of an app of one's own: another's has another topic and key. Without the
    section they are not taken."""

    key: Annotated[str | None, FileName(example="AuthKey.p8")] = None
    """The private key as Apple hands it out, PEM. Relative to this file."""
    key_id: Id = None
    """Apple's name for the key."""
    team: Id = None
    """Apple's name for its owner."""
    topic: Annotated[
        str | None,
        Text("the bundle id of an app", r"[A-Za-z0-9._-]{1,255}", example="org.example.app"),
    ] = None
    """The app."""
    sandbox: Switch = False
    """Take devices of Apple's sandbox, too."""
    test_url: Annotated[
        str | None,
        Text(
            "an https:// URL", r"https://[^\x00-\x20\x7f\ud800-\udfff]+", "https://localhost:8443"
        ),
    ] = None
    """Where pushes for test devices go. Without it none are taken."""
    ca: Annotated[str | None, FileName(example="test.crt")] = None
    """Certificates in PEM that are trusted beside those of the system. Relative to this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ntf:
    """Settings of what the server does for its apps."""

    store: Annotated[str, StoreUrl(FORMS, f"{SQLITE.pattern}|{POSTGRES.pattern}")] = "sqlite:ntf.db"
    """Where tokens and subscriptions are kept: "sqlite:FILE", relative to the state directory, or
    "postgresql://USER@HOST/DATABASE", which a router may use as well."""
    services: Switch = True
    """Subscribe at each router as a service, which takes one request however many subscriptions
    there are."""
    trust_tally: Switch = False
    """After a restart, do not ask for each subscription of a service whose router has as many as
    we do, and the same ones."""
    periodic: Switch = True
    """Push from time to time to apps that asked for it."""
    identity: FolderPath = "identity"
    """Where the server's certificates are, relative to the state directory. They are made at the
    first start: whoever loses them loses the server's address."""
    webpush: WebPush = field(default_factory=WebPush)
    apns: Apns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NtfConfig(ServerConfig):
    """The whole configuration of a notification server."""

    listen: NtfListen = field(default_factory=NtfListen)
    ntf: Ntf = field(default_factory=Ntf)

    @property
    def identity(self) -> Path:
        """The folder with the certificates."""
        return self.directory / self.ntf.identity


def _admin() -> Group:
    """The admin port of any server, at a port of its own."""
    found = group(Admin)
    port = found.members["port"]
    assert isinstance(port, Key), "a port is a key"
    return replace(found, members={**found.members, "port": replace(port, default=ADMIN_PORT)})


KNOWN: Final[Mapping[str, Key | Group]] = {
    "directory": Key(Text("the path of a folder"), "ntf"),
    "listen": group(NtfListen),
    "ntf": group(Ntf),
    "admin": _admin(),
    "journal": group(Journal),
    "log": group(Log),
}
NTF: Final = Tree(KNOWN)


def default_text() -> str:
    """The text that ``headgate ntf config default`` prints."""
    return "\n".join([HEAD, *section_lines(KNOWN)]).rstrip() + "\n"


def load_ntf_config(path: Path | None, environ: Mapping[str, str]) -> NtfConfig:
    """The configuration of a file, or without one, with the environment on top."""
    reading = Reading(NTF, path)
    raw = {} if path is None else parsed(path)
    for variable in variables(environ):
        reading.overlay(raw, KNOWN, path_of(variable.name), variable)
    values = reading.table(raw, KNOWN, ())
    directory = (reading.folder / values.pop("directory")).absolute()
    entries = tuple(reading.entries)
    config = NtfConfig(directory=directory, source=path, entries=entries, **values)
    reading.check_admin(config.admin)
    _check_apns(reading, config.ntf.apns)
    if not config.ntf.webpush.enabled and config.ntf.apns is None:
        reading.warn(("ntf", "webpush", "enabled"), "no device can be woken: no provider is left")
    return replace(config, warnings=tuple(reading.warnings))


def _check_apns(reading: Reading, apns: Apns | None) -> None:
    """A section that is there is complete."""
    for name in ("key", "key_id", "team", "topic"):
        if apns is not None and getattr(apns, name) is None:
            raise reading.error(("ntf", "apns", name), "is missing; Apple asks for it")
