"""How a subscriber is told a message."""

from __future__ import annotations

import pytest

from headgate.core.channels.audience import Kind
from headgate.wire.resp.codec.message_frames import FORMS


@pytest.mark.parametrize(("protocol", "mark"), [(2, b"*"), (3, b">")])
def test_a_message_is_told_by_the_way_it_was_subscribed_to(protocol: int, mark: bytes) -> None:
    """S002-50, S002-51, S002-52, S002-53."""
    form = FORMS[protocol]

    def told(kind: Kind, name: bytes, channel: bytes) -> bytes:
        lead, tail, _ = form.framing(kind, name, channel)
        return lead(2) + b"hi" + tail

    assert told(Kind.EXACT, b"c", b"c") == (mark + b"3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n")
    assert told(Kind.SHARDED, b"c", b"c") == (
        mark + b"3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n"
    )
    assert told(Kind.PATTERN, b"c*", b"cd") == (
        mark + b"4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$2\r\ncd\r\n$2\r\nhi\r\n"
    )


def test_any_byte_may_be_in_a_name_and_in_a_body() -> None:
    """RESP-10: percent signs too, though a frame is made from a template."""
    name = b"%d%%b\0\r\n\xff"
    lead, tail, _ = FORMS[2].framing(Kind.EXACT, name, name)
    assert lead(3) + b"%s\0" + tail == b"*3\r\n$7\r\nmessage\r\n$%d\r\n%b\r\n$3\r\n%%s\0\r\n" % (
        len(name),
        name,
    )
