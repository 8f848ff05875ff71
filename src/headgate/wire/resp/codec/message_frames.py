"""How a subscriber is told a message, in both versions of the protocol."""

from __future__ import annotations

from headgate.core.channels.audience import Framing, Kind
from headgate.wire.resp.codec.replies import bulk

WORDS = {Kind.EXACT: b"message", Kind.PATTERN: b"pmessage", Kind.SHARDED: b"smessage"}


class RespForm:
    """The form of one protocol version: pushes in RESP3, arrays in RESP2."""

    def __init__(self, protocol: int) -> None:
        # S002-53, RESP-31: a push in RESP3, an array in RESP2.
        self._mark = b">" if protocol == 3 else b"*"

    def framing(self, kind: Kind, name: bytes, channel: bytes) -> Framing:
        # S002-50, S002-51, S002-52: who subscribed by pattern is told the pattern, too.
        parts = [WORDS[kind], name, channel] if kind is Kind.PATTERN else [WORDS[kind], channel]
        head = b"%b%d\r\n" % (self._mark, len(parts) + 1) + b"".join(map(bulk, parts))
        lead = head.replace(b"%", b"%%") + b"$%d\r\n"
        return Framing(lead.__mod__, b"\r\n", (head + b"$", b"\r\n"))


FORMS = {2: RespForm(2), 3: RespForm(3)}
