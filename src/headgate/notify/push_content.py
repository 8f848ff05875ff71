"""The content of a push: JSON with a nonce and the bytes sealed for the device.

The sealed bytes are either the code that verifies the device, or the notifiers with messages,
padded to one size so that a provider cannot count them.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from headgate.core.model.value import value
from headgate.crypto.box import NONCE_BYTES, box, unbox
from headgate.crypto.padding import LENGTH_BYTES, pad, unpad
from headgate.errors import Malformed
from headgate.wire.smp.codec.router_address import RouterAddress, decode_base64

PADDED: Final = 2880
"""SimpleX's server pads to 3,072, which makes bodies of 4,310 bytes; Apple takes 4,096. Apps unpad
whatever they get."""

TEXT_BYTES_MAX: Final = PADDED - LENGTH_BYTES

ENTRIES_MAX: Final = 6

ALERT: Final = "Encrypted message or another app event"
CATEGORY: Final = "NTF_CAT_CHECK_MESSAGE"


@value
class NoticeEntry:
    """One notifier with a message: the data by which the app knows the queue to read."""

    router: str
    """The address of the router, as this app wrote it."""
    notifier: bytes
    seconds: int
    """When the notice came."""
    nonce: bytes
    metadata: bytes
    """Sealed by the router for the app."""

    @property
    def text(self) -> str:
        names = f"{self.router}/{_base64(self.notifier)} {self.seconds}"
        return f"{names} {_base64(self.nonce)} {_base64(self.metadata)}"

    @classmethod
    def parse(cls, text: str) -> NoticeEntry:
        """Read the text, or raise `Malformed`."""
        fields = text.split(" ")
        if len(fields) != 4:
            raise Malformed("an entry has four parts")
        where, seconds, nonce, metadata = fields
        router, _, notifier = where.rpartition("/")
        RouterAddress.parse(router)
        digits = seconds.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise Malformed("an entry without its time")
        return cls(
            router,
            decode_base64(notifier),
            int(seconds),
            decode_base64(nonce),
            decode_base64(metadata),
        )


@value
class CodePush:
    """The code by which an app shows that the device is its own."""

    nonce: bytes
    sealed: bytes


@value
class MessagesPush:
    """A push that names the notifiers that have messages."""

    nonce: bytes
    sealed: bytes


@value
class CheckPush:
    """A periodic push, for the app to look for messages itself."""


Push: TypeAlias = CodePush | MessagesPush | CheckPush


def entries_text(entries: Iterable[NoticeEntry]) -> bytes:
    """The newest entries, the newest last: six, or as many as there is room for."""
    newest = sorted(entries, key=lambda entry: entry.seconds)[-ENTRIES_MAX:]
    texts: list[str] = []
    room = TEXT_BYTES_MAX
    for entry in reversed(newest):
        room -= len(entry.text) + bool(texts)
        if room < 0:
            break
        texts.append(entry.text)
    return ";".join(reversed(texts)).encode()


def parse_entries(text: bytes) -> list[NoticeEntry]:
    """The entries that an app finds in a push, the newest last."""
    try:
        return [NoticeEntry.parse(each) for each in text.decode("ascii").split(";")]
    except UnicodeDecodeError:
        raise Malformed("entries that are no text") from None


def seal_code(key: bytes, nonce: bytes, code: bytes) -> CodePush:
    """Seal a code. `key` is that of the token."""
    return CodePush(nonce, seal(key, nonce, code))


def seal_entries(key: bytes, nonce: bytes, entries: Sequence[NoticeEntry]) -> MessagesPush:
    return MessagesPush(nonce, seal(key, nonce, entries_text(entries)))


def seal(key: bytes, nonce: bytes, text: bytes, padded: int = PADDED) -> bytes:
    return box(key, nonce, pad(text, padded))


def open_push(key: bytes, push: CodePush | MessagesPush) -> bytes:
    """The code or the text of a push, opened with the key."""
    return unpad(unbox(key, push.nonce, push.sealed))


def web_push_json(push: Push) -> bytes:
    """The JSON for a receiver of Web Push, before its encryption."""
    return _json(_fields(push))


def apns_json(push: Push) -> bytes:
    """The JSON for Apple, with the content for the app inside."""
    aps: dict[str, object]
    if isinstance(push, MessagesPush):
        aps = {"alert": ALERT, "category": CATEGORY, "mutable-content": 1}
    else:
        aps = {"content-available": 1}
    return _json({"aps": aps, "notificationData": _fields(push)})


def parse_push(data: bytes) -> Push:
    """The push that an app received, by either provider."""
    try:
        fields = json.loads(data)
        if isinstance(fields, dict) and "notificationData" in fields:
            fields = fields["notificationData"]
        if not isinstance(fields, dict):
            raise Malformed("a push that is no object")
        if fields.get("checkMessages") is True:
            return CheckPush()
        nonce = _decoded(fields.get("nonce"))
        if len(nonce) != NONCE_BYTES:
            raise Malformed("a push without its nonce")
        if "verification" in fields:
            return CodePush(nonce, _decoded(fields["verification"]))
        return MessagesPush(nonce, _decoded(fields.get("message")))
    except (ValueError, RecursionError):
        raise Malformed("a push that is no JSON") from None


def _fields(push: Push) -> dict[str, object]:
    match push:
        case CodePush(nonce, sealed):
            return {"nonce": _base64(nonce), "verification": _base64(sealed)}
        case MessagesPush(nonce, sealed):
            return {"message": _base64(sealed), "nonce": _base64(nonce)}
        case CheckPush():
            return {"checkMessages": True}


def _json(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()


def _decoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise Malformed("a push without its sealed text")
    return decode_base64(text)
