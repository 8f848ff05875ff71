"""The greeting: the client names itself and its features, the router offers its own."""

from __future__ import annotations

from dataclasses import field

from headgate.core.model.value import value
from headgate.wire.bmq.codec.control import (
    BrokerResponse,
    Category,
    ClientIdentity,
    ClientType,
    Status,
)
from headgate.wire.bmq.codec.frames import Encoding

VERSION = 1
"""Version of the protocol, the only one."""

ENCODINGS = "PROTOCOL_ENCODING"
CONFIGURE_STREAM = "SUBSCRIPTIONS:CONFIGURE_STREAM"
"""The feature for which clients send `configureStream`, which can carry expressions."""

FEATURES = f"{ENCODINGS}:BER,JSON;{CONFIGURE_STREAM}"
"""New-style properties are read and not requested: without them all clients send and read a message
as the same bytes."""

CLIENTS = (ClientType.TCPCLIENT, ClientType.TCPADMIN)

TOKEN = "token:"
"""Prefix of a process name that has the client's credentials: ``token:NAME:TOKEN``. In every SDK it
is the only field that a client can choose freely."""

NOT_KNOWN = (
    "this router wants to know its clients: as the name of the process say token:NAME:TOKEN,"
    " with a name and its token of listen.bmq.clients, or present a certificate"
)


@value
class Pulse:
    """When a silent client is found to be gone."""

    seconds: float
    """Seconds of silence after which it is sent a heartbeat."""
    missed_max: int
    """Unanswered heartbeats after which it is gone."""


def features_of(text: str) -> dict[str, set[str]]:
    """Parse ``FIELD:VALUE,VALUE;FIELD:VALUE``, in which both sides write their features."""
    fields: dict[str, set[str]] = {}
    for part in text.split(";"):
        name, _, values = part.partition(":")
        fields.setdefault(name, set()).update(values.split(","))
    return fields


def offers(features: str, wanted: str) -> bool:
    """Whether a feature, as ``FIELD:VALUE``, is among these."""
    name, _, item = wanted.partition(":")
    return item in features_of(features).get(name, ())


def encoding_for(hello: ClientIdentity) -> Encoding:
    """JSON, which people can read on the wire, if the client understands it."""
    return Encoding.JSON if offers(hello.features, f"{ENCODINGS}:JSON") else Encoding.BER


def welcome(
    hello: ClientIdentity, router: ClientIdentity, pulse: Pulse, *, is_known: bool = True
) -> BrokerResponse:
    """The answer to a client's hello."""
    if hello.protocol_version != VERSION:
        status = _refusal(Category.NOT_SUPPORTED, f"the protocol's version is {VERSION}")
    elif hello.client_type not in CLIENTS:
        status = _refusal(Category.REFUSED, "only clients connect here, no other brokers")
    elif not is_known:
        status = _refusal(Category.REFUSED, NOT_KNOWN)
    else:
        status = Status(Category.SUCCESS)
    return BrokerResponse(
        status,
        broker_identity=router,
        heartbeat_interval_ms=round(pulse.seconds * 1000),
        max_missed_heartbeats=pulse.missed_max,
    )


def _refusal(category: Category, message: str) -> Status:
    return Status(category, category, message)


@value
class Token:
    """A token by which a client shows who it is. Never logged."""

    name: str
    secret: str = field(repr=False)

    def __str__(self) -> str:
        """As the name of a process."""
        return f"{TOKEN}{self.name}:{self.secret}"


def token_of(hello: ClientIdentity) -> Token | None:
    """The token in a client's hello, right or wrong."""
    if not hello.process_name.startswith(TOKEN):
        return None
    name, _, secret = hello.process_name.removeprefix(TOKEN).partition(":")
    return Token(name, secret)


def name_of(hello: ClientIdentity, client: str = "") -> str:
    """The client in a log line: its name, or else its program, and its host."""
    host = f"@{hello.host_name}" if hello.host_name else ""
    program = "client" if token_of(hello) is not None else hello.process_name
    return f"{client or program or 'client'}{host} pid {hello.pid}"
