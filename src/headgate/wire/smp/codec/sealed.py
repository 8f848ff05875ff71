"""Contents of sealed messages and sealed notices, before they are sealed and after.

Both are padded to one size whatever they hold, so that their length tells nothing.
"""

from __future__ import annotations

from typing import Final

from headgate.core.model.value import value
from headgate.crypto.box import box, nonce_of, unbox
from headgate.crypto.padding import pad, unpad
from headgate.wire.smp.codec.encoding import FieldReader, boolean, int64, string

MESSAGE_PADDED: Final = 16106
MESSAGE_SEALED: Final = MESSAGE_PADDED + 16

NOTICE_PADDED: Final = 128
NOTICE_SEALED: Final = NOTICE_PADDED + 16

BODY: Final = 16088
"""The longest body that a client of any version may send."""

QUOTA: Final = b"QUOTA "


def body_max(version: int) -> int:
    """The longest body that a client of this version may send: what proxies and sealed blocks
    need was taken from it when they came."""
    if version >= 11:
        return 16048
    return 16064 if version >= 8 else BODY


@value
class Body:
    """A message, when it was taken, and whether its sender wanted the notifier to be told."""

    seconds: int
    notify: bool
    body: bytes


@value
class QuotaMarker:
    """In place of the message that was too many."""

    seconds: int


@value
class SealedNotice:
    """The notice that there is a message, for the app behind a notifier."""

    message_id: bytes
    seconds: int


def message_plaintext(seconds: int, notify: bool, body: bytes) -> bytes:
    # S000-51: the sender's bytes as they are.
    # WIRE-41: when, whether to notify, and the body.
    return b"".join((int64(seconds), boolean(notify), b" ", body))


def quota_plaintext(seconds: int) -> bytes:
    return QUOTA + int64(seconds)


def notice_plaintext(message_id: bytes, seconds: int) -> bytes:
    # WIRE-42: which message, and when it came.
    return string(message_id) + int64(seconds)


def parse_message(plaintext: bytes) -> Body | QuotaMarker:
    """What the recipient finds in a message. No time of a message looks like a marker."""
    if plaintext.startswith(QUOTA):
        reader = FieldReader(plaintext, len(QUOTA))
        marker = QuotaMarker(reader.int64())
        reader.finish()
        return marker
    reader = FieldReader(plaintext)
    seconds = reader.int64()
    notify = reader.boolean()
    reader.skip_past(b" ")
    return Body(seconds, notify, reader.rest())


def parse_notice(plaintext: bytes) -> SealedNotice:
    """A notice. What is behind its time is for later versions."""
    reader = FieldReader(plaintext)
    return SealedNotice(reader.string(), reader.int64())


def seal_message(key: bytes, message_id: bytes, plaintext: bytes) -> bytes:
    """The body of a MSG: of the same size for all, and the same bytes at every delivery."""
    # S000-49, S000-50, ACC-3: the nonce is of the id, so the same message has the same bytes.
    return box(key, nonce_of(message_id), pad(plaintext, MESSAGE_PADDED))


def open_message(key: bytes, message_id: bytes, body: bytes) -> bytes:
    return unpad(unbox(key, nonce_of(message_id), body))


def seal_notice(key: bytes, nonce: bytes, plaintext: bytes) -> bytes:
    """The metadata of an NMSG, for the recipient's eyes and not the notifier's."""
    # WIRE-43: of one size, whatever is in it.
    return box(key, nonce, pad(plaintext, NOTICE_PADDED))


def open_notice(key: bytes, nonce: bytes, metadata: bytes) -> bytes:
    return unpad(unbox(key, nonce, metadata))
