"""Connecting with a router: the first host of its address that proves to be it.

A router may have several hosts. They are tried in order, each with a timeout of its own; here is
also decided which failure counts if none of them succeeds.
"""

from __future__ import annotations

import asyncio

from headgate.client.smp.failures import FailureKind, kind_of_failure
from headgate.client.smp.greeting import Stream, greet
from headgate.client.smp.service import Service
from headgate.client.smp.session_keys import SessionKeys
from headgate.client.smp.tls import tls_context
from headgate.errors import (
    HeadgateError,
    NoCommonVersion,
    NotConnected,
    NotThisRouter,
    TimedOut,
)
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.handshake import Role, Versions


async def connect_host(
    address: RouterAddress,
    *,
    service: Service | None,
    role: Role,
    versions: Versions,
    seconds: float,
) -> tuple[Stream, SessionKeys]:
    """A stream with one of the hosts, and the agreed keys. A cancelled caller leaves no connection.
    Raises as `Link.connect` does."""
    context = tls_context(service)
    failure: HeadgateError | None = None
    for host in address.hosts:
        try:
            stream = None
            async with asyncio.timeout(seconds):
                # The name is resolved anew at every attempt.
                stream = await Stream.open(host, address.port, context)
                keys = await greet(
                    stream, address.key_hash, versions=versions, service=service, role=role
                )
        except BaseException as error:
            if stream is not None:
                stream.abort()
            match error:
                case NotConnected() | NotThisRouter() | NoCommonVersion():
                    failure = _to_act_on(failure, error)
                case TimeoutError():
                    what = f"connecting with {host}:{address.port}"
                    failure = _to_act_on(failure, TimedOut(what, seconds))
                case _:
                    raise
        else:
            return stream, keys
    assert failure is not None, "an address has a host"
    raise failure


def _to_act_on(failure: HeadgateError | None, error: HeadgateError) -> HeadgateError:
    """The failure that counts: of two hosts, the temporary one."""
    if failure is None or kind_of_failure(failure) is FailureKind.HOST:
        return error
    return failure
