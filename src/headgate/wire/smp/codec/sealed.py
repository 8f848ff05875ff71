"""Contents of sealed messages and notices, before sealing and after opening.

Both are padded to one size, so that their length reveals nothing.
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
    """The longest body that a client of this version may send: proxies and sealed blocks took room
    from it."""
    if version >= 11:
        return 16048
    return 16064 if version >= 8 else BODY


@value
class Body:
    """A message, when it was accepted, and whether its sender wanted the notifier to be
    notified."""

    seconds: int
    notify: bool
    body: bytes


@value
class QuotaMarker:
    """Stands in place of the message that exceeded the quota."""

    seconds: int


@value
class SealedNotice:
    """The notice that there is a message, for the app behind a notifier."""

    message_id: bytes
    seconds: int


def message_plaintext(seconds: int, notify: bool, body: bytes) -> bytes:
    # S000-51: the sender's bytes unchanged.
    # WIRE-41: when, whether to notify, and the body.
    return b"".join((int64(seconds), boolean(notify), b" ", body))


def quota_plaintext(seconds: int) -> bytes:
    return QUOTA + int64(seconds)


def notice_plaintext(message_id: bytes, seconds: int) -> bytes:
    # WIRE-42: the message's id and time.
    return string(message_id) + int64(seconds)


def parse_message(plaintext: bytes) -> Body | QuotaMarker:
    """Parse the contents of a message. No time of a message looks like a marker."""
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
    """Parse a notice. Later versions may add fields after its time."""
    reader = FieldReader(plaintext)
    return SealedNotice(reader.string(), reader.int64())


def seal_message(key: bytes, message_id: bytes, plaintext: bytes) -> bytes:
    """The body of a MSG: of one size, and the same bytes at every delivery."""
    # S000-49, S000-50, ACC-3: the nonce is the id, so the same message has the same bytes.
    return box(key, nonce_of(message_id), pad(plaintext, MESSAGE_PADDED))


def open_message(key: bytes, message_id: bytes, body: bytes) -> bytes:
    return unpad(unbox(key, nonce_of(message_id), body))


def seal_notice(key: bytes, nonce: bytes, plaintext: bytes) -> bytes:
    """The metadata of an NMSG, which the recipient can read and the notifier cannot."""
    # WIRE-43: of one size, whatever it holds.
    return box(key, nonce, pad(plaintext, NOTICE_PADDED))


def open_notice(key: bytes, nonce: bytes, metadata: bytes) -> bytes:
    return unpad(unbox(key, nonce, metadata))
