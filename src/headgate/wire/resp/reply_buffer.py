"""The replies of one client between the command that made them and its socket.

Commands of one read are answered together, since each write is a system call. Small replies are
joined; large ones are not copied again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.wire.resp.codec.replies import Decided, Pairs, Pieces, Reply, encode, pieces_of
from headgate.wire.resp.port import RespPort

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub

FULL_BYTES = 16 * 1024
"""So many bytes of answers are written before the next command: a read may have thousands of
commands whose answers are megabytes each."""
IN_PIECES = (list, Pieces, Pairs, Decided)
"""Replies whose parts may be megabytes each."""
JOINED_BYTES = 256 * 1024
"""Answers are joined up to so many bytes. To copy a large one takes as long as to make it."""


class ReplyBuffer:
    """Replies of one session that are not written yet, in the order of its commands.

    The session owns it. It puts replies in, and writes them when they are more than `FULL_BYTES`,
    when messages have to come behind them, and at the end of what it was given to read. If all
    sessions together leave more answers than they may, the hub closes some after a write, maybe
    this one.
    """

    __slots__ = ("_hub", "_outlet", "blobs", "bytes")

    def __init__(self, hub: Hub, outlet: RespPort) -> None:
        self._hub = hub
        self._outlet = outlet
        self.blobs: list[bytes] = []
        self.bytes = 0
        """Of these, but for integers that say how many got messages."""

    def append(self, blob: bytes) -> None:
        """Add an answer that is encoded already."""
        self.blobs.append(blob)
        self.bytes += len(blob)

    def put(self, reply: Reply, protocol: int) -> None:
        """Add a reply, encoded for a version of the protocol."""
        if type(reply) in IN_PIECES:
            pieces = pieces_of(reply, protocol)
            self.blobs += pieces
            self.bytes += sum(map(len, pieces))
            return
        blob = encode(reply, protocol)
        self.blobs.append(blob)
        self.bytes += len(blob)

    def write(self) -> None:
        """Hand the answers so far to the shell."""
        if self.blobs:
            out, self.blobs = self.blobs, []
            size, self.bytes = self.bytes, 0
            if len(out) == 1:
                self._outlet.write(out[0])
            elif size <= JOINED_BYTES:
                self._outlet.write(b"".join(out))
            else:
                for blob in _joined(out):
                    self._outlet.write(blob)
            if self._hub.stuck:
                self._hub.look_at_answers()


def _joined(blobs: list[bytes]) -> Iterator[bytes]:
    """The blobs in a row, short ones together."""
    small: list[bytes] = []
    size = 0
    for blob in blobs:
        if small and size + len(blob) > JOINED_BYTES:
            yield b"".join(small)
            small, size = [], 0
        small.append(blob)
        size += len(blob)
    yield b"".join(small)
