"""Commands of apps for a notification server, and their bytes, the same in versions 2 and 3.

Nothing here knows whether a token exists or who may use it: `check_shape` says what a command must
name and whether it must be signed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, Final, Literal, TypeAlias

from headgate.core.model.value import value
from headgate.crypto.private_keys import kind_of_private
from headgate.errors import Malformed
from headgate.wire.ntf.devices import Device, read_device
from headgate.wire.smp.codec.commands import BadCommand, Ping
from headgate.wire.smp.codec.encoding import FieldReader, string, word16
from headgate.wire.smp.codec.router_address import RouterAddress

TOKEN: Final = b"T"
SUBSCRIPTION: Final = b"S"
"""The first byte of TNEW and SNEW, since both make something new."""


@value
class TNew:
    """Register a device. Signed with the key inside, which signs all that comes after."""

    tag: ClassVar = b"TNEW"
    device: Device
    verify_key: bytes
    dh: bytes
    """The app's X25519 key: what is pushed is sealed for it."""


@value
class TVfy:
    """Show the code that was pushed to the device."""

    tag: ClassVar = b"TVFY"
    code: bytes = field(repr=False)


@value
class TChk:
    """Ask for the status of a token."""

    tag: ClassVar = b"TCHK"


@value
class TRpl:
    """Put another device in the place of that of a token, and keep its subscriptions."""

    tag: ClassVar = b"TRPL"
    device: Device


@value
class TDel:
    """Remove a token and its subscriptions."""

    tag: ClassVar = b"TDEL"


@value
class TCrn:
    """Push every so many minutes, whether there is a message or not. Zero is never."""

    tag: ClassVar = b"TCRN"
    minutes: int


@value
class SNew:
    """Subscribe to a notifier in place of the app, with its private key."""

    tag: ClassVar = b"SNEW"
    token: bytes
    router: RouterAddress
    notifier: bytes
    notifier_key: bytes = field(repr=False)
    """PKCS#8."""


@value
class SChk:
    """Ask for the status of a subscription."""

    tag: ClassVar = b"SCHK"


@value
class SDel:
    """Remove a subscription."""

    tag: ClassVar = b"SDEL"


BareNtfCommand: TypeAlias = TChk | TDel | SChk | SDel | Ping
NtfCommand: TypeAlias = BareNtfCommand | TNew | TVfy | TRpl | TCrn | SNew

BARE: Final[dict[bytes, BareNtfCommand]] = {
    command.tag: command for command in (TChk(), TDel(), SChk(), SDel(), Ping())
}
"""Commands of one word."""


def _tnew(reader: FieldReader) -> TNew:
    if reader.char() != TOKEN:
        raise Malformed("no new token")
    return TNew(read_device(reader), reader.queue_key(), reader.dh_key())


def _snew(reader: FieldReader) -> SNew:
    if reader.char() != SUBSCRIPTION:
        raise Malformed("no new subscription")
    token, router, notifier = reader.string(), RouterAddress.read(reader), reader.string()
    key = reader.string()
    if kind_of_private(key) is None:
        raise Malformed("no private key that a notifier can have")
    return SNew(token, router, notifier, key)


PARAMETERS: Final[dict[bytes, Callable[[FieldReader], NtfCommand]]] = {
    TNew.tag: _tnew,
    TVfy.tag: lambda reader: TVfy(reader.string()),
    TRpl.tag: lambda reader: TRpl(read_device(reader)),
    TCrn.tag: lambda reader: TCrn(reader.word16()),
    SNew.tag: _snew,
}

TAG_BYTES: Final = 4


def parse_command(data: bytes) -> NtfCommand:
    """Raises `BadCommand`: a word that is no command is kept apart from wrong parameters."""
    space = data.find(b" ", 0, TAG_BYTES + 1)
    tag = data if space < 0 else data[:space]
    bare, read = BARE.get(tag), PARAMETERS.get(tag)
    if bare is None and read is None:
        raise BadCommand("UNKNOWN")
    if bare is not None and space < 0:
        return bare
    if read is None or space < 0:
        raise BadCommand("SYNTAX")
    reader = FieldReader(data, space + 1)
    try:
        command = read(reader)
        reader.finish()
    except Malformed as error:
        raise BadCommand("SYNTAX") from error
    return command


def encode_command(command: NtfCommand) -> bytes:
    parameters = _parameters(command)
    return command.tag if parameters is None else b"%b %b" % (command.tag, parameters)


def _parameters(command: NtfCommand) -> bytes | None:
    match command:
        case TNew(device, verify_key, dh):
            return TOKEN + device.encode() + string(verify_key) + string(dh)
        case TVfy(code):
            return string(code)
        case TRpl(device):
            return device.encode()
        case TCrn(minutes):
            return word16(minutes)
        case SNew(token, router, notifier, key):
            names = string(token) + router.encode() + string(notifier)
            return SUBSCRIPTION + names + string(key)
        case _:
            return None


def check_shape(
    command: NtfCommand, has_entity: bool, has_authorization: bool
) -> Literal["NO_AUTH", "HAS_AUTH"] | None:
    """The error of a command whose entity or authorization is missing or too much; found before
    anything is looked up."""
    match command:
        case Ping():
            return "HAS_AUTH" if has_entity or has_authorization else None
        case TNew() | SNew():
            if not has_authorization:
                return "NO_AUTH"
            return "HAS_AUTH" if has_entity else None
        case _:
            return None if has_entity and has_authorization else "NO_AUTH"
