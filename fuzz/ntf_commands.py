"""Throws bytes at everything that a notification server or its app reads.

``python -m fuzz.ntf_commands fuzz/corpus/ntf_commands`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from headgate.errors import Malformed
from headgate.wire.ntf.commands import SNew, check_shape, encode_command, parse_command
from headgate.wire.ntf.hello import NtfClientHello, NtfServerHello
from headgate.wire.ntf.replies import encode_reply, has_right_entity, parse_reply
from headgate.wire.ntf.transmissions import (
    BLOCK,
    NtfRequest,
    encode_answer,
    encode_block,
    encode_request,
    pack_blocks,
    read_answers,
    read_requests,
)
from headgate.wire.smp.codec.commands import BadCommand

SESSION = bytes(range(32))


def check(data: bytes) -> None:
    """What can be read is written as it was; what cannot is refused in the way that it should."""
    check_command(data)
    check_reply(data)
    check_hello(data)
    check_block(data[:BLOCK].ljust(BLOCK, b"#"))
    if len(data) <= BLOCK - 2:
        check_block(encode_block(data))


def check_command(data: bytes) -> None:
    try:
        command = parse_command(data)
    except BadCommand:
        return
    encoded = encode_command(command)
    assert parse_command(encoded) == command
    if not isinstance(command, SNew):  # a port may be written with zeros before it
        assert encoded == data
    shapes = [(entity, authorized) for entity in (True, False) for authorized in (True, False)]
    assert [check_shape(command, *shape) for shape in shapes].count(None) == 1


def check_reply(data: bytes) -> None:
    with suppress(Malformed):
        reply = parse_reply(data)
        assert has_right_entity(reply, b"entity") or has_right_entity(reply, b"")
        assert encode_reply(reply, 3) == data
        assert data.startswith(encode_reply(reply, 2))


def check_hello(data: bytes) -> None:
    for parse in (NtfServerHello.parse, NtfClientHello.parse):
        with suppress(Malformed):
            assert data.startswith(parse(data).encode())


def check_block(block: bytes) -> None:
    for read in read_requests(block, SESSION):
        if isinstance(read, NtfRequest):
            command = encode_command(read.command)
            sent = encode_request(read.authorization, read.correlation, read.entity, command)
            [again] = pack_blocks([sent])
            [request] = read_requests(again, SESSION)
            assert isinstance(request, NtfRequest)
            assert request.command == read.command
        else:
            [again] = pack_blocks([encode_answer(read, 3)])
            assert read_answers(again) == [read]
    with suppress(Malformed):
        answers = read_answers(block)
        [again] = pack_blocks([encode_answer(answer, 3) for answer in answers])
        assert read_answers(again) == answers


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
