"""Throws bytes at the commands and replies of SMP, and at what is inside sealed messages.

``python -m fuzz.smp_commands fuzz/corpus/smp_commands`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from headgate.errors import Malformed
from headgate.wire.smp.codec.commands import (
    BadCommand,
    Rslv,
    SmpSend,
    check_credentials,
    encode_command,
    parse_command,
)
from headgate.wire.smp.codec.replies import Err, encode_reply, has_right_entity, parse_reply_command
from headgate.wire.smp.codec.sealed import (
    Body,
    message_plaintext,
    notice_plaintext,
    parse_message,
    parse_notice,
    quota_plaintext,
)

VERSIONS = range(7, 21)


def check(data: bytes) -> None:
    """What can be read is written as it was; what cannot is refused in the way that it should."""
    for version in VERSIONS:
        check_command(data, version)
        check_reply(data, version)
    check_bodies(data)


def check_command(data: bytes, version: int) -> None:
    try:
        command = parse_command(data, version)
    except BadCommand:
        return
    encoded = encode_command(command, version)
    assert parse_command(encoded, version) == command
    if not isinstance(command, (SmpSend, Rslv)):  # of which something is ignored
        assert encoded == data
    shapes = [(entity, authorized) for entity in (True, False) for authorized in (True, False)]
    assert any(check_credentials(command, *shape) is None for shape in shapes)


def check_reply(data: bytes, version: int) -> None:
    try:
        reply = parse_reply_command(data, version)
    except Malformed:
        return
    assert has_right_entity(reply, b"entity") or has_right_entity(reply, b"")
    encoded = encode_reply(reply, version)
    again = parse_reply_command(encoded, version)
    assert encode_reply(again, version) == encoded
    if version == VERSIONS[-1] and not isinstance(reply, Err):  # one of which has an old name
        assert encoded == data


def check_bodies(data: bytes) -> None:
    with suppress(Malformed):
        message = parse_message(data)
        if isinstance(message, Body):
            written = message_plaintext(message.seconds, message.notify, message.body)
        else:
            written = quota_plaintext(message.seconds)
        assert parse_message(written) == message
    with suppress(Malformed):
        notice = parse_notice(data)
        assert data.startswith(notice_plaintext(notice.message_id, notice.seconds))


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
