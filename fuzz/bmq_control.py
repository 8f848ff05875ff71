"""Throws bytes at the control messages of BlazingMQ, in both encodings, and at addresses.

``python -m fuzz.bmq_control fuzz/corpus/bmq_control`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys

from headgate.core.model.queue_uri import parse_uri
from headgate.errors import Refused
from headgate.wire.bmq.codec.control import Unknown
from headgate.wire.bmq.codec.control_encoding import (
    decode_control,
    decode_negotiation,
    encode_control,
    encode_negotiation,
)
from headgate.wire.bmq.codec.frames import Encoding, Malformed, pad


def check(data: bytes) -> None:
    """What can be read means the same in both encodings; what cannot is malformed."""
    for encoding in Encoding:
        for body in (data, pad(data)):
            check_control(body, encoding)
            check_negotiation(body, encoding)
    check_uri(data)


def check_control(body: bytes, encoding: Encoding) -> None:
    try:
        message = decode_control(body, encoding)
    except Malformed:
        return
    assert decode_control(memoryview(body), encoding) == message
    if not isinstance(message.content, Unknown):
        for other in Encoding:
            assert decode_control(encode_control(message, other), other) == message


def check_negotiation(body: bytes, encoding: Encoding) -> None:
    try:
        message = decode_negotiation(body, encoding)
    except Malformed:
        return
    for other in Encoding:
        assert decode_negotiation(encode_negotiation(message, other), other) == message


def check_uri(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        uri = parse_uri(text)
    except Refused:
        return
    canonical = parse_uri(uri.canonical)
    assert (canonical.domain, canonical.tier, canonical.queue) == (uri.domain, uri.tier, uri.queue)
    assert text == uri.canonical + (f"?id={uri.app}" if uri.app else "")


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
