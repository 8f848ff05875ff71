"""Blocks of 512 bytes and what is in them: requests one way, replies the other.

A transmission is SMP's of before there were services, and a block is a batch of them, padded. It is
not sealed: TLS is all that hides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.crypto.padding import LENGTH_BYTES, pad, unpad
from headgate.errors import Malformed
from headgate.wire.ntf.commands import NtfCommand, check_shape, parse_command
from headgate.wire.ntf.replies import NtfReply, encode_reply, parse_reply
from headgate.wire.smp.codec import transmissions as smp
from headgate.wire.smp.codec.blocks import pack, unpack
from headgate.wire.smp.codec.commands import BadCommand
from headgate.wire.smp.codec.replies import Err
from headgate.wire.smp.codec.transmissions import BadAuthorization, Transmission

BLOCK: Final = 512
BATCH: Final = BLOCK - LENGTH_BYTES - 1
"""Transmissions with their lengths. SimpleX's apps pack 16 bytes less into a block, as if it were
sealed; servers read both, and some endpoints of Web Push fit only this."""

LAYOUT: Final = 15
"""The last version of SMP whose transmissions have no place for a service's signature."""


@value
class NtfRequest:
    """A command in its right shape. Whether it is authorized is to be checked."""

    correlation: bytes
    entity: bytes
    """The id of a token or of a subscription, or nothing."""
    command: NtfCommand
    authorization: bytes = field(repr=False)
    signed: bytes = field(repr=False)
    """The bytes that the authorization must cover."""


@value
class NtfAnswer:
    """A reply, and to what. Both names are those of the request."""

    correlation: bytes
    entity: bytes
    reply: NtfReply


UNREADABLE: Final = NtfAnswer(b"", b"", Err("BLOCK"))
"""The answer to a block, or to a transmission, of which nothing can be read."""

NtfIncoming: TypeAlias = NtfRequest | NtfAnswer


def encode_block(payload: bytes) -> bytes:
    return pad(payload, BLOCK)


def decode_block(block: bytes) -> bytes:
    """The payload, as that of a handshake is."""
    if len(block) != BLOCK:
        raise Malformed(f"a block of {len(block)} bytes")
    return unpad(block)


def pack_blocks(transmissions: Sequence[bytes], batch_bytes: int = BATCH) -> list[bytes]:
    """As few blocks as it takes, in order. Raises `LargeMessage` if a transmission fits none."""
    return [encode_block(payload) for payload in pack(transmissions, batch_bytes)]


def unpack_block(block: bytes) -> list[bytes]:
    return unpack(decode_block(block))


# The server's side.


def read_requests(block: bytes, session_id: bytes) -> list[NtfIncoming]:
    """The requests of a block: each is to be carried out, or is an answer to be given at once. The
    answers of a block are in the order of this list."""
    try:
        return [_read_request(data, session_id) for data in unpack_block(block)]
    except Malformed:
        return [UNREADABLE]


def _read_request(data: bytes, session_id: bytes) -> NtfIncoming:
    try:
        asked = smp.parse(data, LAYOUT)
    except BadAuthorization as error:
        return NtfAnswer(error.correlation, b"", Err("BLOCK"))
    except Malformed:
        return UNREADABLE
    correlation, entity = asked.correlation, asked.entity
    try:
        command = parse_command(asked.command)
    except BadCommand as error:
        return NtfAnswer(correlation, entity, Err(f"CMD {error.kind}"))
    wrong = check_shape(command, bool(entity), bool(asked.authorization))
    if wrong is not None:
        return NtfAnswer(correlation, entity, Err(f"CMD {wrong}"))
    signed = smp.signed(session_id, asked)
    return NtfRequest(correlation, entity, command, asked.authorization, signed)


def encode_answer(answer: NtfAnswer, version: int) -> bytes:
    """The transmission of an answer; `pack_blocks` takes it."""
    reply = encode_reply(answer.reply, version)
    return smp.encode_unsigned(answer.correlation, answer.entity, reply)


# The app's side.


def signed_bytes(session_id: bytes, correlation: bytes, entity: bytes, command: bytes) -> bytes:
    """The bytes that a signature or an authenticator covers."""
    return smp.signed(session_id, Transmission(b"", None, correlation, entity, command))


def encode_request(
    authorization: bytes, correlation: bytes, entity: bytes, command: bytes
) -> bytes:
    """The transmission of a request; `pack_blocks` takes it."""
    return smp.encode(Transmission(authorization, None, correlation, entity, command), LAYOUT)


def read_answers(block: bytes) -> list[NtfAnswer]:
    """Parse the answers of a server, or raise `Malformed`."""
    answers = []
    for data in unpack_block(block):
        transmission = smp.parse_reply(data)
        reply = parse_reply(transmission.command)
        answers.append(NtfAnswer(transmission.correlation, transmission.entity, reply))
    return answers
