"""Outgoing events of a session after a turn: acknowledgements joined, messages joined, in order
with the answers."""

from __future__ import annotations

from headgate.core.model.limits import MiB
from headgate.wire.bmq.codec.frames import EventType, event
from headgate.wire.bmq.codec.messages import Ack, encode_acks

EVENT_BYTES = 1 * MiB
"""Size of an event of messages, about."""


class Outgoing:
    """The next write of a session, collected into as few events as the order allows."""

    __slots__ = ("_blobs", "_pushed", "_pushes", "acks", "messages")

    def __init__(self) -> None:
        self._blobs: list[bytes] = []
        self._pushes: list[bytes] = []
        self._pushed = 0
        self.acks: list[Ack] = []
        self.messages = 0

    def push(self, encoded: bytes) -> None:
        self._pushes.append(encoded)
        self._pushed += len(encoded)
        self.messages += 1
        if self._pushed >= EVENT_BYTES:
            self._end_event()

    def reply(self, reply: bytes) -> None:
        self._flush()
        self._blobs.append(reply)

    @property
    def has_any(self) -> bool:
        return bool(self._blobs or self._pushes or self.acks)

    def taken(self) -> bytes:
        self._flush()
        return b"".join(self._blobs)

    def _flush(self) -> None:
        if self.acks:
            self._blobs.append(event(EventType.ACK, encode_acks(self.acks)))
            self.acks = []
        self._end_event()

    def _end_event(self) -> None:
        if self._pushes:
            self._blobs.append(event(EventType.PUSH, b"".join(self._pushes)))
            self._pushes = []
            self._pushed = 0
