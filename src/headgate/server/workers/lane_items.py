"""Items of the commands lane between a front and worker 0, as bytes.

A blob is a list of items, each a list that begins with its kind. Commands and effects are arrays of
their fields in order; the `ref` of a command is a number of the front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

import msgspec

from headgate.core import effects as e
from headgate.core.commands import Command, Disconnect, Request, Send
from headgate.core.model.message import Message
from headgate.core.model.parties import Parties, Proof
from headgate.core.reader_commands import Block, Withdraw
from headgate.server.workers.value_shapes import Shapes

# From a front.
OPENED = 0
"""A session of the front was opened: id, wire, and the parts of its name."""
COMMANDS = 1
"""Commands of a session: id, commands."""
CLOSED = 2
"""A session is over: id, whether its connection was lost."""
READ = 3
"""A client took messages: id, bytes."""
HELD = 4
"""A client does not read its answers: id, bytes."""

# From worker 0.
EFFECTS = 5
"""Effects for a session: id, effects, bytes that its mailbox was charged."""
TAKEN = 6
"""Commands were taken from the inbox: their number and bytes."""
KEY = 7
"""A key with which a proof succeeded: whose, the id of the queue, the key."""

BATCH_ITEMS = 256
"""Most items in one blob. Bodies are at least 16 KB where there are many."""

Item: TypeAlias = list[Any]
PackProof: TypeAlias = Callable[[Any], Any]
UnpackProof: TypeAlias = Callable[[Any], Proof]

COMMAND_SHAPES = Shapes((*get_args(Request), Withdraw, Disconnect))
BLOCK = len(COMMAND_SHAPES.all)
"""Stands in place of the number of a shape for several commands in one item."""
EFFECT_SHAPES = Shapes(get_args(e.Effect))
NOBODY = b""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode


class Numbered(NamedTuple):
    """A command, and the number of its `ref`; 0 if no answer is expected."""

    number: int
    command: Command


def pack_command(numbered: Numbered, pack_proof: PackProof) -> Item:
    number, command = numbered
    item = COMMAND_SHAPES.pack(command)
    places = COMMAND_SHAPES.all[item[0]].places
    if "ref" in places:
        item[1 + places["ref"]] = number
    if "proof" in places and item[1 + places["proof"]] is not None:
        item[1 + places["proof"]] = pack_proof(item[1 + places["proof"]])
    return item


def unpack_command(item: Item, unpack_proof: UnpackProof, now: float) -> Command | Block:
    """A command that arrives now, by the clock of the worker with the shard."""
    if item[0] == BLOCK:
        parts = [unpack_command(each, unpack_proof, now) for each in item[1]]
        return Block(tuple(parts))  # type: ignore[arg-type]
    places = COMMAND_SHAPES.all[item[0]].places
    if "ref" in places and not item[1 + places["ref"]]:
        item[1 + places["ref"]] = None
    if "proof" in places and item[1 + places["proof"]] is not None:
        item[1 + places["proof"]] = unpack_proof(item[1 + places["proof"]])
    command: Command = COMMAND_SHAPES.unpack(item)
    if type(command) is Send:
        sent = command.message
        message = Message(sent.id, sent.body, now, sent.properties)
        # `replace` would take three times as long
        return Send(
            command.session, command.ref, command.queue, message, command.via, command.proof
        )
    return command


def pack_effect(effect: e.Effect) -> Item:
    if type(effect) is e.Deliver and effect.parties is not None:
        # A front seals the message, and needs no other field for that.
        effect = e.Deliver(
            effect.session,
            effect.queue,
            effect.message,
            effect.ref,
            effect.app,
            effect.interests,
            effect.attempts,
            Parties((), effect.parties.secret, NOBODY),
            effect.seq,
        )
    return EFFECT_SHAPES.pack(effect)


def number_of(item: Item) -> int:
    """The number of the `ref` of a packed effect; 0 if it has none."""
    place = EFFECT_SHAPES.all[item[0]].places.get("ref")
    return 0 if place is None else item[1 + place] or 0


def unpack_effect(item: Item, ref: object) -> e.Effect:
    """An effect, with the `ref` of its number."""
    place = EFFECT_SHAPES.all[item[0]].places.get("ref")
    if place is not None:
        item[1 + place] = ref
    effect: e.Effect = EFFECT_SHAPES.unpack(item)
    return effect


def batches(items: Sequence[Item]) -> list[bytes]:
    """The items, cut into blobs."""
    return [
        encode(items[start : start + BATCH_ITEMS]) for start in range(0, len(items), BATCH_ITEMS)
    ]
