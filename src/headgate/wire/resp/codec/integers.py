"""Numbers in arguments, as strict as Redis is about them."""

from __future__ import annotations

import re

from headgate.wire.resp.codec.replies import CommandError

INTEGER = re.compile(rb"-?[1-9][0-9]*|0")
INT64 = range(-(2**63), 2**63)


def integer(text: bytes, error: str = "ERR value is not an integer or out of range") -> int:
    """A 64-bit integer without sign, blank or zero too many."""
    number = int(text) if len(text) <= 20 and INTEGER.fullmatch(text) else None
    if number is None or number not in INT64:
        raise CommandError(error)
    return number
