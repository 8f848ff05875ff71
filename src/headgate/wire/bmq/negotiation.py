"""The greeting: the client says who it is and what it understands, the router what it offers."""

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
"""Of the protocol; there is no other."""

ENCODINGS = "PROTOCOL_ENCODING"
CONFIGURE_STREAM = "SUBSCRIPTIONS:CONFIGURE_STREAM"
"""The feature that makes clients say `configureStream`, which is what can carry expressions."""

FEATURES = f"{ENCODINGS}:BER,JSON;{CONFIGURE_STREAM}"
"""New-style properties are understood and not asked for: without them a message is the same
bytes for whoever sends it and whoever reads it."""

CLIENTS = (ClientType.TCPCLIENT, ClientType.TCPADMIN)

TOKEN = "token:"
"""With it begins the name of a process that says who the client is: ``token:NAME:TOKEN``. It is the
only word of a client that is its own to choose in every SDK."""

NOT_KNOWN = (
    "this router wants to know its clients: as the name of the process say token:NAME:TOKEN,"
    " with a name and its token of listen.bmq.clients, or present a certificate"
)


@value
class Pulse:
    """How a client that fell silent is found out."""

    seconds: float
    """After so long without a word it is asked for one."""
    missed_max: int
    """So many times; then it is gone."""


def features_of(text: str) -> dict[str, set[str]]:
    """``FIELD:VALUE,VALUE;FIELD:VALUE``, as both sides write what they understand."""
    fields: dict[str, set[str]] = {}
    for part in text.split(";"):
        name, _, values = part.partition(":")
        fields.setdefault(name, set()).update(values.split(","))
    return fields


def offers(features: str, wanted: str) -> bool:
    """Whether a feature, as ``FIELD:VALUE``, is among others."""
    name, _, item = wanted.partition(":")
    return item in features_of(features).get(name, ())


def encoding_for(hello: ClientIdentity) -> Encoding:
    """JSON, which people can read on the wire, for whoever understands it."""
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
    """A token with which a client shows who it is. It is not for logs."""

    name: str
    secret: str = field(repr=False)

    def __str__(self) -> str:
        """As the name of a process."""
        return f"{TOKEN}{self.name}:{self.secret}"


def token_of(hello: ClientIdentity) -> Token | None:
    """The token that a client presents, right or wrong."""
    if not hello.process_name.startswith(TOKEN):
        return None
    name, _, secret = hello.process_name.removeprefix(TOKEN).partition(":")
    return Token(name, secret)


def name_of(hello: ClientIdentity, client: str = "") -> str:
    """The client in a log line: who it is, or else its program, and where it runs."""
    host = f"@{hello.host_name}" if hello.host_name else ""
    program = "client" if token_of(hello) is not None else hello.process_name
    return f"{client or program or 'client'}{host} pid {hello.pid}"
