"""Commands of clients, and their bytes in every version of the protocol.

Keys stay in the bytes of the wire; only their kind is checked. Nothing here knows whether a queue
exists or who may use it: `check_credentials` checks only what a command must name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, Literal, TypeAlias

from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.errors import Malformed, Refused
from headgate.wire.smp.codec.encoding import (
    FieldReader,
    boolean,
    int64,
    items,
    large,
    maybe_string,
    string,
    word16,
)
from headgate.wire.smp.codec.new_queue import New as New
from headgate.wire.smp.codec.new_queue import NewLink as NewLink
from headgate.wire.smp.codec.new_queue import NKey as NKey
from headgate.wire.smp.codec.new_queue import (
    new_parameters,
    notifier_parameters,
    read_new,
    read_notifier,
    read_password,
)

TALLIES_SINCE: Final = 19
"""The first version in which services send the number and hash of their queues."""


class BadCommand(Refused):
    """A command that cannot be read; `kind` is the client's error."""

    def __init__(self, kind: Literal["UNKNOWN", "SYNTAX"]) -> None:
        super().__init__(kind)
        self.kind = kind


@value
class Sub:
    """Subscribe to a queue."""

    tag: ClassVar = b"SUB"


@value
class Subs:
    """Subscribe to all queues of a service. Older versions do not send the expected tally."""

    tag: ClassVar = b"SUBS"
    expected: Tally | None = None


@value
class NSub:
    """Subscribe to a notifier."""

    tag: ClassVar = b"NSUB"


@value
class NSubs:
    """Subscribe to all notifiers of a service."""

    tag: ClassVar = b"NSUBS"
    expected: Tally | None = None


@value
class Key:
    """The recipient secures the queue with the sender's key."""

    tag: ClassVar = b"KEY"
    key: bytes


@value
class SKey:
    """The sender secures the queue with its own key."""

    tag: ClassVar = b"SKEY"
    key: bytes


@value
class RKey:
    """Replace the recipient's keys."""

    tag: ClassVar = b"RKEY"
    keys: tuple[bytes, ...]


@value
class LSet:
    """Set the data of a link."""

    tag: ClassVar = b"LSET"
    link: bytes
    fixed: bytes
    user: bytes


@value
class LKey:
    """Secure the queue behind a link, and read the link."""

    tag: ClassVar = b"LKEY"
    key: bytes


@value
class LGet:
    """Read the data of a link."""

    tag: ClassVar = b"LGET"


@value
class LDel:
    """Remove a link."""

    tag: ClassVar = b"LDEL"


@value
class NDel:
    """Remove a queue's notifier."""

    tag: ClassVar = b"NDEL"


@value
class SmpGet:
    """Get one message without subscribing."""

    tag: ClassVar = b"GET"


@value
class SmpAck:
    """Confirm a message."""

    tag: ClassVar = b"ACK"
    message_id: bytes


@value
class Off:
    """Suspend a queue."""

    tag: ClassVar = b"OFF"


@value
class Del:
    """Delete a queue."""

    tag: ClassVar = b"DEL"


@value
class Que:
    """Ask about a queue."""

    tag: ClassVar = b"QUE"


@value
class SmpSend:
    """Send a message to a queue."""

    tag: ClassVar = b"SEND"
    notify: bool
    body: bytes


@value
class Ping:
    """Ask whether the router is there."""

    tag: ClassVar = b"PING"


@value
class Prxy:
    """Open a session with another router."""

    tag: ClassVar = b"PRXY"
    hosts: tuple[bytes, ...]
    port: bytes
    key_hash: bytes
    password: bytes | None = None


@value
class PFwd:
    """Forward a command to another router."""

    tag: ClassVar = b"PFWD"
    version: int
    dh: bytes
    sealed: bytes


@value
class RFwd:
    """A command that another router forwards."""

    tag: ClassVar = b"RFWD"
    sealed: bytes


@value
class Rslv:
    """Resolve a name."""

    tag: ClassVar = b"RSLV"
    domain: bytes


Bare: TypeAlias = Sub | NSub | LGet | LDel | NDel | SmpGet | Off | Del | Que | Ping
Full: TypeAlias = (
    New | Key | SKey | RKey | LSet | LKey | NKey | SmpAck | SmpSend | Prxy | PFwd | RFwd | Rslv
)
Command: TypeAlias = Bare | Full | Subs | NSubs

BARE: Final[dict[bytes, Bare | Subs | NSubs]] = {
    command.tag: command
    for command in (
        Sub(), NSub(), LGet(), LDel(), NDel(), SmpGet(), Off(), Del(), Que(), Ping(), Subs(),
        NSubs(),
    )
}  # fmt: skip
"""Commands of one word. There is one value of each, since all are equal."""

SINCE: Final[dict[bytes, int]] = {
    Prxy.tag: 8, PFwd.tag: 8, RFwd.tag: 8, SKey.tag: 9,
    RKey.tag: 15, LSet.tag: 15, LKey.tag: 15, LGet.tag: 15, LDel.tag: 15,
    Subs.tag: 16, NSubs.tag: 16, Rslv.tag: 20,
}  # fmt: skip
"""The first version of a command; the others are older than all supported versions."""


def _expected(reader: FieldReader, version: int) -> Tally:
    # S001-5, S001-6: SUBS and NSUBS have parameters from version 19 on.
    if version < TALLIES_SINCE:
        raise Malformed("this version has no tallies")
    return reader.tally()


def _send(reader: FieldReader, version: int) -> SmpSend:
    notify = reader.boolean()
    reader.skip_past(b" ")  # flags of later versions
    return SmpSend(notify, reader.rest())


def _prxy(reader: FieldReader, version: int) -> Prxy:
    hosts = tuple(reader.some(FieldReader.string))
    return Prxy(hosts, reader.string(), reader.string(), reader.maybe(read_password))


def _rslv(reader: FieldReader, version: int) -> Rslv:
    command = Rslv(reader.string())
    reader.rest()  # fields of later versions
    return command


PARAMETERS: Final[dict[bytes, Callable[[FieldReader, int], Command]]] = {
    New.tag: read_new,
    Subs.tag: lambda reader, version: Subs(_expected(reader, version)),
    NSubs.tag: lambda reader, version: NSubs(_expected(reader, version)),
    Key.tag: lambda reader, _: Key(reader.queue_key()),
    SKey.tag: lambda reader, _: SKey(reader.queue_key()),
    RKey.tag: lambda reader, _: RKey(tuple(reader.some(FieldReader.queue_key))),
    LSet.tag: lambda reader, _: LSet(reader.string(), reader.large(), reader.large()),
    LKey.tag: lambda reader, _: LKey(reader.queue_key()),
    NKey.tag: lambda reader, _: read_notifier(reader),
    SmpAck.tag: lambda reader, _: SmpAck(reader.string()),
    SmpSend.tag: _send,
    Prxy.tag: _prxy,
    PFwd.tag: lambda reader, _: PFwd(reader.word16(), reader.dh_key(), reader.rest()),
    RFwd.tag: lambda reader, _: RFwd(reader.rest()),
    Rslv.tag: _rslv,
}

TAG_BYTES: Final = max(map(len, [*BARE, *PARAMETERS]))


def parse_command(data: bytes, version: int) -> Command:
    """Parse a command; raise `BadCommand`, which distinguishes unknown words from wrong
    parameters."""
    space = data.find(b" ", 0, TAG_BYTES + 1)
    tag = data if space < 0 else data[:space]
    bare = BARE.get(tag)
    read = PARAMETERS.get(tag)
    # ACC-86: a command of another version is as unknown as any word.
    if (bare is None and read is None) or version < SINCE.get(tag, 0):
        raise BadCommand("UNKNOWN")
    if space < 0:
        if bare is None or (read is not None and version >= TALLIES_SINCE):
            raise BadCommand("SYNTAX")
        return bare
    if read is None:
        raise BadCommand("SYNTAX")
    reader = FieldReader(data, space + 1)
    try:
        command = read(reader, version)
        reader.finish()
    except Malformed as error:
        # ACC-87: a known command with wrong parameters.
        raise BadCommand("SYNTAX") from error
    return command


def encode_command(command: Command, version: int) -> bytes:
    """The bytes in this version, without fields that it does not have."""
    parameters = _parameters(command, version)
    return command.tag if parameters is None else b"%b %b" % (command.tag, parameters)


def _parameters(command: Command, version: int) -> bytes | None:
    match command:
        case New():
            return new_parameters(command, version)
        case Subs(expected) | NSubs(expected):
            if version < TALLIES_SINCE:
                return None
            assert expected is not None, "from version 19 on a service says what it expects"
            # WIRE-23: count and hash of the expected queues.
            return int64(expected.count) + string(expected.hash)
        case Key(key) | SKey(key) | LKey(key):
            return string(key)
        case RKey(keys):
            # WIRE-33: the number of keys, then each.
            return items([string(key) for key in keys])
        case LSet(link, fixed, user):
            # WIRE-34: the data of a link may be long.
            return string(link) + large(fixed) + large(user)
        case NKey():
            return notifier_parameters(command)
        case SmpAck(message_id):
            # WIRE-32: the id of the message.
            return string(message_id)
        case SmpSend(notify, body):
            # WIRE-25: the flag, a blank, and the rest.
            return boolean(notify) + b" " + body
        case Prxy(hosts, port, key_hash, password):
            address = items([string(host) for host in hosts]) + string(port) + string(key_hash)
            return address + maybe_string(password)
        case PFwd(forwarded, dh, sealed):
            return word16(forwarded) + string(dh) + sealed
        case RFwd(sealed):
            return sealed
        case Rslv(domain):
            return string(domain)
        case _:
            return None


def check_credentials(
    command: Command, has_entity: bool, has_authorization: bool
) -> Literal["NO_AUTH", "HAS_AUTH", "NO_ENTITY"] | None:
    """The error in what a command names, or in whether it is authorized, before any look-up."""
    match command:
        case New():
            if not has_authorization:
                return "NO_AUTH"
            return "HAS_AUTH" if has_entity else None
        case SmpSend():
            return None if has_entity else "NO_ENTITY"
        case LGet() | PFwd():
            if not has_entity:
                return "NO_ENTITY"
            return "HAS_AUTH" if has_authorization else None
        case Ping() | Prxy() | RFwd() | Rslv():
            return "HAS_AUTH" if has_entity or has_authorization else None
        case _:
            return None if has_entity and has_authorization else "NO_AUTH"
