"""The greeting: the client says who it is and what it understands, the router what it offers."""

from __future__ import annotations

from headgate.core.values import value
from headgate.wire.bmq.control import (
    BrokerResponse,
    Category,
    ClientIdentity,
    ClientType,
    Status,
)
from headgate.wire.bmq.events import Encoding

VERSION = 1
"""Of the protocol; there is no other."""

ENCODINGS = "PROTOCOL_ENCODING"
CONFIGURE_STREAM = "SUBSCRIPTIONS:CONFIGURE_STREAM"
"""The feature that makes clients say `configureStream`, which is what can carry expressions."""

FEATURES = f"{ENCODINGS}:BER,JSON;{CONFIGURE_STREAM}"
"""New-style properties are understood and not asked for: without them a message is the same
bytes for whoever sends it and whoever reads it."""

CLIENTS = (ClientType.TCPCLIENT, ClientType.TCPADMIN)


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
    for field in text.split(";"):
        name, _, values = field.partition(":")
        fields.setdefault(name, set()).update(values.split(","))
    return fields


def offers(features: str, wanted: str) -> bool:
    """Whether a feature, as ``FIELD:VALUE``, is among others."""
    name, _, item = wanted.partition(":")
    return item in features_of(features).get(name, ())


def encoding_for(hello: ClientIdentity) -> Encoding:
    """JSON, which people can read on the wire, for whoever understands it."""
    return Encoding.JSON if offers(hello.features, f"{ENCODINGS}:JSON") else Encoding.BER


def welcome(hello: ClientIdentity, router: ClientIdentity, pulse: Pulse) -> BrokerResponse:
    """The answer to a client's hello."""
    if hello.protocol_version != VERSION:
        status = _refusal(Category.NOT_SUPPORTED, f"the protocol's version is {VERSION}")
    elif hello.client_type not in CLIENTS:
        status = _refusal(Category.REFUSED, "only clients connect here, no other brokers")
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


def name_of(hello: ClientIdentity) -> str:
    """The client in a log line: its program, and where it runs."""
    host = f"@{hello.host_name}" if hello.host_name else ""
    return f"{hello.process_name or 'client'}{host} pid {hello.pid}"
