"""Blocks to write: requests encoded, signed, and packed into as few blocks as possible."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence

from headgate.client.smp.recipient import Request
from headgate.client.smp.requests import CORRELATION_BYTES, SUBSCRIBING
from headgate.client.smp.session_keys import SessionKeys
from headgate.core.model.value import value
from headgate.errors import Refused
from headgate.wire.smp.codec.blocks import BATCH, BATCH_COUNT, TRANSMISSION, LargeMessage, pack


@value
class Outgoing:
    """A request that is ready to be sent."""

    place: int
    """Its position in its batch."""
    request: Request
    correlation: bytes
    data: bytes


@value
class OutgoingBlock:
    """Requests that go in one block."""

    requests: Sequence[Outgoing]

    @property
    def payload(self) -> bytes:
        (payload,) = pack([outgoing.data for outgoing in self.requests])
        return payload

    @property
    def correlations(self) -> list[bytes]:
        return [outgoing.correlation for outgoing in self.requests]

    @property
    def is_subscribing(self) -> bool:
        return any(isinstance(each.request.command, SUBSCRIBING) for each in self.requests)


@value
class NotSent:
    """A request that cannot be sent, with the reason."""

    place: int
    error: Refused


def outgoing_blocks(
    keys: SessionKeys, requests: Sequence[Request]
) -> Iterator[OutgoingBlock | NotSent]:
    """Blocks in the order of the requests. Each is made when the iterator reaches it: signatures
    take longer than all the rest, and other tasks run between two blocks."""
    block: list[Outgoing] = []
    room = BATCH
    for place, request in enumerate(requests):
        correlation = request.correlation
        if correlation is None:
            correlation = secrets.token_bytes(CORRELATION_BYTES)
        try:
            data = keys.encode(request, correlation)
            if len(data) > TRANSMISSION:
                raise LargeMessage(place)
        except Refused as error:
            yield NotSent(place, error)
            continue
        # S000-60: a block takes what fits, and the rest starts another.
        if room < len(data) + 2 or len(block) == BATCH_COUNT:
            yield OutgoingBlock(block)
            block, room = [], BATCH
        block.append(Outgoing(place, request, correlation, data))
        room -= len(data) + 2
    if block:
        yield OutgoingBlock(block)
