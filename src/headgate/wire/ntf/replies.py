"""Replies of a notification server, and their bytes in versions 2 and 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias

from headgate.core.model.value import value
from headgate.errors import Malformed
from headgate.wire.ntf.statuses import InvalidReason, SubscriptionStatus, TokenStatus
from headgate.wire.smp.codec.encoding import FieldReader, string
from headgate.wire.smp.codec.replies import Err, Ok, Pong

REASONS_SINCE: Final = 3
"""The version from which a server says why a token is invalid."""

TEXT_FOLLOWS: Final = "ERR "


@value
class IdTkn:
    """A device was registered."""

    tag: ClassVar = b"IDTKN"
    token: bytes
    dh: bytes
    """The server's X25519 key for this token."""


@value
class IdSub:
    """A subscription was made."""

    tag: ClassVar = b"IDSUB"
    subscription: bytes


@value
class TokenState:
    """The status of a token, and why it is invalid if it is and that is known."""

    tag: ClassVar = b"TKN"
    status: TokenStatus
    reason: InvalidReason | None = None


@value
class SubscriptionState:
    """The status of a subscription; `text` is the router's error if the status is ERR."""

    tag: ClassVar = b"SUB"
    status: SubscriptionStatus
    text: str = ""


NtfReply: TypeAlias = IdTkn | IdSub | TokenState | SubscriptionState | Ok | Pong | Err

BARE: Final[dict[bytes, Ok | Pong]] = {Ok.tag: Ok(), Pong.tag: Pong()}

ANYWHERE: Final = (Err,)
NOWHERE: Final = (IdTkn, IdSub, Pong)


def encode_reply(reply: NtfReply, version: int) -> bytes:
    match reply:
        case IdTkn(token, dh):
            return b"IDTKN " + string(token) + string(dh)
        case IdSub(subscription):
            return b"IDSUB " + string(subscription)
        case TokenState(status, reason):
            if reason is None or version < REASONS_SINCE:
                return f"TKN {status.value}".encode()
            return f"TKN {status.value},{reason.value}".encode()
        case SubscriptionState(SubscriptionStatus.ERR, text):
            return b"SUB ERR " + text.encode("utf-8", "surrogateescape")
        case SubscriptionState(status):
            return f"SUB {status.value}".encode()
        case Err(text):
            return b"ERR " + text.encode("utf-8", "surrogateescape")
        case _:
            return reply.tag


def _token_state(reader: FieldReader) -> TokenState:
    word, comma, reason = reader.rest().decode("utf-8", "surrogateescape").partition(",")
    try:
        status = TokenStatus(word)
        if not comma:
            return TokenState(status)
        if status is TokenStatus.INVALID:
            return TokenState(status, InvalidReason(reason))
    except ValueError:
        pass
    raise Malformed("no status of a token")


def _subscription_state(reader: FieldReader) -> SubscriptionState:
    text = reader.rest().decode("utf-8", "surrogateescape")
    if text.startswith(TEXT_FOLLOWS):
        return SubscriptionState(SubscriptionStatus.ERR, text.removeprefix(TEXT_FOLLOWS))
    try:
        status = SubscriptionStatus(text)
    except ValueError:
        raise Malformed("no status of a subscription") from None
    if status is SubscriptionStatus.ERR:
        raise Malformed("an error without its text")
    return SubscriptionState(status)


PARAMETERS: Final[dict[bytes, Callable[[FieldReader], NtfReply]]] = {
    IdTkn.tag: lambda reader: IdTkn(reader.string(), reader.dh_key()),
    IdSub.tag: lambda reader: IdSub(reader.string()),
    TokenState.tag: _token_state,
    SubscriptionState.tag: _subscription_state,
    Err.tag: lambda reader: Err(reader.rest().decode("utf-8", "surrogateescape")),
}

TAG_BYTES: Final = max(map(len, [*BARE, *PARAMETERS]))


def parse_reply(data: bytes) -> NtfReply:
    """A reply to an app, parsed."""
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
    reply = read(reader)
    reader.finish()
    return reply


def has_right_entity(reply: NtfReply, entity: bytes) -> bool:
    """Whether a reply is about something just if it should be: an app trusts no other."""
    return isinstance(reply, ANYWHERE) or bool(entity) != isinstance(reply, NOWHERE)
