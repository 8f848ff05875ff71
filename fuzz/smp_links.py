"""Throws bytes at addresses and links, long and short, as bytes and as text.

``python -m fuzz.smp_links fuzz/corpus/smp_links`` needs atheris, which is not among the packages
for development: install it beside them. The tests replay the corpus without it.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from headgate.errors import Malformed
from headgate.wire.smp.agent.link_data import FixedLinkData, parse_user_data
from headgate.wire.smp.agent.links import parse_link, read_link
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.agent.ratchet_parameters import RatchetOffer, RatchetParameters
from headgate.wire.smp.agent.short_links import parse_short_link
from headgate.wire.smp.codec.encoding import FieldReader


def check(data: bytes) -> None:
    """Nothing but `Malformed` is raised, and what was read is written so that it reads the same."""
    check_bytes(data)
    check_text(data.decode("utf-8", "replace"))


def check_bytes(data: bytes) -> None:
    for read in (read_link, QueueAddress.read):
        with suppress(Malformed):
            place = read(FieldReader(data))
            assert read(FieldReader(place.encode())).encode() == place.encode()
    for read_keys in (RatchetOffer.read, RatchetParameters.read):
        with suppress(Malformed):
            reader = FieldReader(data)
            keys = read_keys(reader)
            assert keys.encode() == data[: reader.mark()]
    for parse in (FixedLinkData.parse, parse_user_data):
        with suppress(Malformed):
            part = parse(data)
            assert parse(part.encode()).encode() == part.encode()


def check_text(text: str) -> None:
    for parse in (parse_link, parse_short_link, QueueAddress.parse, RatchetOffer.parse):
        with suppress(Malformed):
            link = parse(text)
            assert parse(link.text) == link
    with suppress(Malformed):
        parse_link(text).encode()


def main() -> None:
    import atheris  # type: ignore[import-untyped]

    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
