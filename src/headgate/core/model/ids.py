"""The identifiers of the model. Bytes are opaque: chosen by a peer or at random."""

from __future__ import annotations

from typing import NewType, TypeAlias

SessionId = NewType("SessionId", int)
"""One connection as the core sees it. A number is never used again: a late confirm of an old
session must not open the gate of a new one."""

QueueId = NewType("QueueId", bytes)
ServiceId = NewType("ServiceId", bytes)
MessageId = NewType("MessageId", bytes)
Channel = NewType("Channel", bytes)

AppId: TypeAlias = str
"""An independent reader of a queue. The empty one is the only app of a queue without apps."""

Seq = NewType("Seq", int)
"""The number of a message in its shard: later messages have larger numbers, with gaps."""

Ref: TypeAlias = object
"""Identifies the request that a reply belongs to. Only the wire understands it."""

WHOLE: AppId = ""
