"""Throws bytes at the payloads of SMP blocks and at the transmissions in them.

``python -m fuzz.smp_blocks fuzz/corpus/smp_blocks`` needs atheris, which is not among the
packages for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from headgate.crypto.padding import pad, unpad
from headgate.errors import Malformed
from headgate.wire.smp.codec.blocks import BLOCK, PAYLOAD, BlockFrames, pack, unpack
from headgate.wire.smp.codec.transmissions import encode, parse, parse_reply

VERSIONS = (7, 15, 16, 19)
"""Where the layout of a transmission changes, and the ends."""


def check(data: bytes) -> None:
    """What can be read is written as it was; what cannot is malformed, and nothing else."""
    for version in VERSIONS:
        check_transmission(data, version)
    with suppress(Malformed):
        assert encode(parse_reply(data), VERSIONS[-1]) == data
    with suppress(Malformed):
        payload = unpad(data)
        assert data.startswith(pad(payload, len(payload) + 2))
    check_payload(data)
    check_frames(data)


def check_transmission(data: bytes, version: int) -> None:
    with suppress(Malformed):
        assert encode(parse(data, version), version) == data


def check_payload(data: bytes) -> None:
    try:
        transmissions = unpack(data)
    except Malformed:
        return
    assert len(transmissions) == data[0]
    if len(data) <= PAYLOAD:
        assert pack(transmissions) == [data]
    for transmission in transmissions:
        for version in VERSIONS:
            check_transmission(transmission, version)


def check_frames(data: bytes) -> None:
    """However the stream is cut, its blocks are the same."""
    stream = data.ljust(BLOCK, b"#") + data
    step = 1 + len(data) * 7919 % BLOCK
    frames = BlockFrames()
    blocks = [
        block for at in range(0, len(stream), step) for block in frames.feed(stream[at : at + step])
    ]
    whole = len(stream) // BLOCK * BLOCK
    assert blocks == [stream[at : at + BLOCK] for at in range(0, whole, BLOCK)]
    assert frames.held == len(stream) - whole


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
