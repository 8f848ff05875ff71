"""What is published between two times that it is written, and the blobs that are written of it.

Sessions that hear the same share a blob. Where everybody hears something else each has its own,
put together from frames that all share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from headgate.core.channels.audience import FrameGroup
from headgate.core.model.ids import SessionId

Logged: TypeAlias = tuple[FrameGroup, bytes, int]
"""Frames of a frame group, and how many they are: one, unless nobody else's could come between."""

Blob: TypeAlias = tuple[bytes, Sequence[SessionId], int]
"""Bytes, the sessions that get them, and how many messages they are."""

LineOf: TypeAlias = Callable[[SessionId], list[bytes]]
"""Where the frames of a session are put together."""


class Pass:
    """What was published in a row to the rosters of one moment, in its order. The channels own it,
    and write its log themselves: that is the hot path."""

    __slots__ = ("frame_groups", "log", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.frame_groups: list[FrameGroup] = []
        """Each that has a frame in the log, once."""
        self.log: list[Logged] = []

    def prepare(self, line_of: LineOf) -> None:
        """Find the lines of all who hear something of it, while their session is known."""
        if len(self.frame_groups) > 1:
            for frame_group in self.frame_groups:
                if not frame_group.lines:
                    frame_group.lines = list(map(line_of, frame_group.sessions))

    def blobs(self, line_of: LineOf) -> Iterator[Blob]:
        """What is to be written of it. Each is made when it is asked for."""
        if len(self.frame_groups) == 1:
            [frame_group] = self.frame_groups
            # S002-30: handed over once, with everybody who hears it.
            yield _blob(self.log, frame_group.sessions)
            return
        sharing: dict[tuple[SessionId, ...], list[FrameGroup]] = {}
        for frame_group in self.frame_groups:
            sharing.setdefault(frame_group.sessions, []).append(frame_group)
        hearing = dict.fromkeys(chain.from_iterable(sharing))
        if len(hearing) == sum(map(len, sharing)):
            yield from self._shared(sharing)
        else:
            yield from self._one_by_one(line_of)

    def _shared(self, sharing: dict[tuple[SessionId, ...], list[FrameGroup]]) -> Iterator[Blob]:
        """A blob for all who hear the same, where nobody hears more than that."""
        logs: dict[FrameGroup, list[Logged]] = {}
        for frame_groups in sharing.values():
            log: list[Logged] = []
            logs.update(dict.fromkeys(frame_groups, log))
        for logged in self.log:
            logs[logged[0]].append(logged)
        for sessions, frame_groups in sharing.items():
            yield _blob(logs[frame_groups[0]], sessions)

    def _one_by_one(self, line_of: LineOf) -> Iterator[Blob]:
        """A blob for each session, put together from the frames that it hears."""
        self.prepare(line_of)
        lines: dict[SessionId, list[bytes]] = {}
        for frame_group in self.frame_groups:
            lines.update(zip(frame_group.sessions, frame_group.lines, strict=True))
        more: dict[SessionId, int] = {}
        # S002-40, RESP-43: in the order in which it was published.
        for frame_group, frames, count in self.log:
            for line in frame_group.lines:
                line.append(frames)
            if count > 1:
                for session in frame_group.sessions:
                    more[session] = more.get(session, 0) + count - 1
        for session, line in lines.items():
            if line:  # else somebody took it while another blob was written
                blob, messages = b"".join(line), len(line) + more.get(session, 0)
                line.clear()
                yield blob, (session,), messages


def _blob(log: Sequence[Logged], sessions: Sequence[SessionId]) -> Blob:
    blob = b"".join([frames for _, frames, _ in log])
    return blob, sessions, sum([count for _, _, count in log])
