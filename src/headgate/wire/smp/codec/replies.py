"""Replies and events of a router, and their bytes in every version of the protocol.

A reply that an older version does not have becomes the nearest that it has. A proxy's replies are
missing: the router is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias

from headgate.core.model.parties import Purpose
from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.smp.codec.commands import TALLIES_SINCE
from headgate.wire.smp.codec.encoding import (
    FieldReader,
    boolean,
    int64,
    large,
    maybe,
    maybe_string,
    string,
)

NONCE: Final = 24


@value
class Nid:
    """The id of a notifier."""

    tag: ClassVar = b"NID"
    notifier: bytes
    dh: bytes


@value
class Ids:
    """A queue was made."""

    tag: ClassVar = b"IDS"
    recipient: bytes
    sender: bytes
    dh: bytes
    purpose: Purpose | None = None
    link: bytes | None = None
    service: bytes | None = None
    notifier: Nid | None = None
    """The reply to an NKEY."""


@value
class Sok:
    """Subscribed, by the session itself or as its service."""

    tag: ClassVar = b"SOK"
    service: bytes | None = None


@value
class Soks:
    """The queues of a service that are subscribed now. Before version 19 only their number."""

    tag: ClassVar = b"SOKS"
    tally: Tally


@value
class Ok:
    """Success."""

    tag: ClassVar = b"OK"


@value
class Msg:
    """A message for its recipient."""

    tag: ClassVar = b"MSG"
    message_id: bytes
    sealed: bytes


@value
class Alls:
    """All messages that waited for a service were delivered."""

    tag: ClassVar = b"ALLS"


@value
class NMsg:
    """A notifier's notice of a message."""

    tag: ClassVar = b"NMSG"
    nonce: bytes
    sealed: bytes


@value
class SmpEnd:
    """Another session has the subscription now."""

    tag: ClassVar = b"END"


@value
class Deld:
    """The queue is gone."""

    tag: ClassVar = b"DELD"


@value
class Ends:
    """Another session has the service now, with these queues."""

    tag: ClassVar = b"ENDS"
    tally: Tally


@value
class Lnk:
    """The data of a link."""

    tag: ClassVar = b"LNK"
    sender: bytes
    fixed: bytes
    user: bytes


@value
class Info:
    """Information about a queue, as JSON."""

    tag: ClassVar = b"INFO"
    json: bytes


@value
class Pong:
    """The reply to a PING."""

    tag: ClassVar = b"PONG"


@value
class Err:
    """An error by its text: ``AUTH``, ``CMD SYNTAX``, ``STORE`` and more."""

    tag: ClassVar = b"ERR"
    text: str


Bare: TypeAlias = Ok | Alls | SmpEnd | Deld | Pong
Reply: TypeAlias = Bare | Ids | Sok | Soks | Msg | Nid | NMsg | Ends | Lnk | Info | Err

BARE: Final[dict[bytes, Bare]] = {
    reply.tag: reply for reply in (Ok(), Alls(), SmpEnd(), Deld(), Pong())
}

ANYWHERE: Final = (Ids, Err)
NOWHERE: Final = (Pong, Alls)


def encode_reply(reply: Reply, version: int) -> bytes:
    match reply:
        case Msg(message_id, sealed):
            return b"".join((b"MSG ", string(message_id), sealed))
        case Sok(service):
            # S001-4: SOK is OK to an older client.
            if version < 16:
                return Ok.tag
            # WIRE-38: with the service, if it has one.
            return b"SOK " + maybe_string(service)
        case Err(text):
            return b"ERR " + _error(text, version).encode("utf-8", "surrogateescape")
        case Deld():
            return Deld.tag if version >= 10 else SmpEnd.tag
        case Ids():
            return b"IDS " + _ids_parameters(reply, version)
        case Soks(tally) | Ends(tally):
            # S001-5, S001-6, S004-10: with the hash from version 19 on.
            known = string(tally.hash) if version >= TALLIES_SINCE else b""
            return b"%b %b%b" % (reply.tag, int64(tally.count), known)
        case NMsg(nonce, sealed):
            assert len(nonce) == NONCE, "a nonce has its length"
            return b"".join((b"NMSG ", nonce, string(sealed)))
        case Nid():
            return b"NID " + _nid_parameters(reply)
        case Lnk(sender, fixed, user):
            return b"".join((b"LNK ", string(sender), large(fixed), large(user)))
        case Info(json):
            return b"INFO " + json
        case _:
            return reply.tag


def _ids_parameters(ids: Ids, version: int) -> bytes:
    # WIRE-35, WIRE-36, WIRE-37: each version has more fields after these.
    encoded = string(ids.recipient) + string(ids.sender) + string(ids.dh)
    if version < 9:
        return encoded
    if version < 15:
        return encoded + boolean(ids.purpose is Purpose.MESSAGING)
    purpose = None if ids.purpose is None else ids.purpose.value.encode()
    encoded += maybe(purpose) + maybe_string(ids.link)
    if version >= 16:
        encoded += maybe_string(ids.service)
    if version >= 17:
        encoded += maybe(None if ids.notifier is None else _nid_parameters(ids.notifier))
    return encoded


def _nid_parameters(nid: Nid) -> bytes:
    # WIRE-39: the notifier's id, then the key.
    return string(nid.notifier) + string(nid.dh)


def _error(text: str, version: int) -> str:
    """The error, without blocked queues and their notices if the version does not have them."""
    if version >= 18 or not text.startswith("BLOCKED"):
        return text
    return "AUTH" if version < 12 else text.partition(",notice=")[0]


def _ids(reader: FieldReader, version: int) -> Ids:
    recipient, sender, dh = reader.string(), reader.string(), reader.dh_key()
    if version < 9:
        return Ids(recipient, sender, dh)
    if version < 15:
        purpose = Purpose.MESSAGING if reader.boolean() else Purpose.CONTACT
        return Ids(recipient, sender, dh, purpose)
    return Ids(
        recipient,
        sender,
        dh,
        reader.maybe(FieldReader.purpose),
        reader.maybe(FieldReader.string),
        reader.maybe(FieldReader.string) if version >= 16 else None,
        reader.maybe(_nid) if version >= 17 else None,
    )


def _nid(reader: FieldReader) -> Nid:
    return Nid(reader.string(), reader.dh_key())


def _tally(reader: FieldReader, version: int) -> Tally:
    return reader.tally() if version >= TALLIES_SINCE else Tally(reader.int64())


def _err(reader: FieldReader, version: int) -> Err:
    text = reader.rest().decode("utf-8", "surrogateescape")
    return Err("CMD NO_ENTITY" if text == "CMD NO_QUEUE" else text)  # its former name


PARAMETERS: Final[dict[bytes, Callable[[FieldReader, int], Reply]]] = {
    Ids.tag: _ids,
    Sok.tag: lambda reader, _: Sok(reader.maybe(FieldReader.string)),
    Soks.tag: lambda reader, version: Soks(_tally(reader, version)),
    Msg.tag: lambda reader, _: Msg(reader.string(), reader.rest()),
    Nid.tag: lambda reader, _: _nid(reader),
    NMsg.tag: lambda reader, _: NMsg(reader.take(NONCE), reader.string()),
    Ends.tag: lambda reader, version: Ends(_tally(reader, version)),
    Lnk.tag: lambda reader, _: Lnk(reader.string(), reader.large(), reader.large()),
    Info.tag: lambda reader, _: Info(reader.rest()),
    Err.tag: _err,
}

TAG_BYTES: Final = max(map(len, [*BARE, *PARAMETERS]))


def parse_reply_command(data: bytes, version: int) -> Reply:
    """Parse a reply to a client."""
    space = data.find(b" ", 0, TAG_BYTES + 1)
    if space < 0:
        bare = BARE.get(data)
        if bare is None:
            raise Malformed("no reply of one word")
        return bare
    read = PARAMETERS.get(data[:space])
    if read is None:
        raise Malformed("no reply with parameters")
    reader = FieldReader(data, space + 1)
    reply = read(reader, version)
    reader.finish()
    return reply


def has_right_entity(reply: Reply, entity: bytes) -> bool:
    """Whether a reply names an entity exactly if it should: a client trusts no other."""
    return isinstance(reply, ANYWHERE) or bool(entity) != isinstance(reply, NOWHERE)
