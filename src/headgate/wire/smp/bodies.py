"""What is inside a sealed message and a sealed notice, before it is sealed and after.

Both are padded to one size whatever they hold, so that their length tells nothing.
"""

from __future__ import annotations

from typing import Final

from headgate.core.values import value
from headgate.wire.smp.encoding import Reader, boolean, int64, string

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
class Notice:
    """That there is a message, for the app behind a notifier."""

    message_id: bytes
    seconds: int


def message_plaintext(seconds: int, notify: bool, body: bytes) -> bytes:
    return b"".join((int64(seconds), boolean(notify), b" ", body))


def quota_plaintext(seconds: int) -> bytes:
    return QUOTA + int64(seconds)


def notice_plaintext(message_id: bytes, seconds: int) -> bytes:
    return string(message_id) + int64(seconds)


def parse_message(plaintext: bytes) -> Body | QuotaMarker:
    """What the recipient finds in a message. No time of a message looks like a marker."""
    if plaintext.startswith(QUOTA):
        reader = Reader(plaintext, len(QUOTA))
        marker = QuotaMarker(reader.int64())
        reader.finish()
        return marker
    reader = Reader(plaintext)
    seconds = reader.int64()
    notify = reader.boolean()
    reader.skip_past(b" ")
    return Body(seconds, notify, reader.rest())


def parse_notice(plaintext: bytes) -> Notice:
    """What is behind the time is for later versions."""
    reader = Reader(plaintext)
    return Notice(reader.string(), reader.int64())
