"""Passes: messages published between two writes, and the blobs made of them.

Sessions that get the same messages share a blob. Otherwise each has its own, put together from
shared frames.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from headgate.compiled import part
from headgate.core.channels.audience import Heard, PureFrameGroup, PureHeard, PureLine
from headgate.core.channels.session_channels import SessionChannels
from headgate.core.model.ids import SessionId

Logged: TypeAlias = tuple[PureFrameGroup, bytes, int]
"""Frames of a frame group and how many they are. More than one only if no other group's frames can
come between."""

Blob: TypeAlias = tuple[bytes, Sequence[SessionId], int]
"""Bytes, the sessions that get them, and the number of messages."""

LineOf: TypeAlias = Callable[[SessionId], PureLine]
"""Returns the buffer for the frames of a session."""

Tap: TypeAlias = Callable[[bytes, Sequence[bytes]], None]
"""A channel, and what was published on it."""


class PurePass:
    """Messages published in a row to the same rosters, in their order. Owned by the channels, which
    begin another pass when it is full."""

    __slots__ = (
        "_bytes",
        "_bytes_most",
        "_frames",
        "_frames_most",
        "_groups",
        "_lines",
        "_log",
        "number",
    )

    def __init__(self, number: int, frames_most: int, bytes_most: int) -> None:
        self.number = number
        self._frames_most = frames_most
        self._bytes_most = bytes_most
        self._frames = self._bytes = 0
        self._groups: list[PureFrameGroup] = []
        """Each group with a frame in the log, once."""
        self._log: list[Logged] = []
        self._lines: dict[SessionId, PureLine] | None = None
        """The buffers of all receivers, if they were made before a change of rosters."""

    def __len__(self) -> int:
        """Entries of its log."""
        return len(self._log)

    @property
    def is_full(self) -> bool:
        """Whether no more messages may be added."""
        return self._frames > self._frames_most or self._bytes > self._bytes_most

    def following(self) -> PurePass:
        """The pass that comes after this one."""
        return type(self)(self.number + 1, self._frames_most, self._bytes_most)

    # Publishing.

    def add(self, frame_groups: Sequence[PureFrameGroup], body: bytes) -> None:
        """Publish a message, in each of these forms."""
        size, number = len(body), self.number
        for frame_group in frame_groups:
            # S002-32, S002-33, RESP-50: encoded once for all receivers with the same form.
            frame = b"".join((frame_group.lead(size), body, frame_group.tail))
            if frame_group.heard_in != number:
                frame_group.heard_in = number
                self._groups.append(frame_group)
            # S002-31: in its place among all messages of the pass.
            self._log.append((frame_group, frame, 1))
            self._bytes += len(frame)
        self._frames += len(frame_groups)

    def add_all(self, frame_group: PureFrameGroup, bodies: Sequence[bytes]) -> None:
        """Add messages of one frame group in a row."""
        frames = frame_group.framed(bodies)
        if frame_group.heard_in != self.number:
            frame_group.heard_in = self.number
            self._groups.append(frame_group)
        self._log.append((frame_group, frames, len(bodies)))
        self._frames += len(bodies)
        self._bytes += len(frames)

    def run(
        self,
        known: Mapping[bytes, PureHeard],
        moment: int,
        names: Sequence[bytes],
        bodies: Sequence[bytes],
        at: int,
        counts: list[int],
    ) -> int:
        """Publish messages from `at` on, while their audiences are known and current and the pass
        is not full. Append the receivers of each; return where it ended."""
        end = len(names)
        while at < end and not self.is_full:
            heard = known.get(names[at])
            if heard is None or heard.moment != moment:
                break
            body = bodies[at]
            heard.published += 1
            heard.size += len(body)
            # S002-27: without receivers, counting is all.
            if heard.frame_groups:
                self.add(heard.frame_groups, body)
            counts.append(heard.receivers)
            at += 1
        return at

    # Writing.

    def prepare(self, line_of: LineOf) -> None:
        """Make the buffers of all receivers, while their sessions are known. Nothing is published
        to the pass from then on."""
        if len(self._groups) > 1 and self._lines is None:
            hearing = dict.fromkeys(chain.from_iterable([each.sessions for each in self._groups]))
            self._lines = self._found(line_of, hearing)

    def _found(self, line_of: LineOf, hearing: Iterable[SessionId]) -> dict[SessionId, PureLine]:
        """The buffers of all receivers. Most hear several groups, and are looked up once."""
        for frame_group in self._groups:
            if not frame_group.lines:
                frame_group.lines = list(map(line_of, frame_group.sessions))
        return {session: line_of(session) for session in hearing}

    def blobs(self, line_of: LineOf) -> Iterator[Blob]:
        """The blobs of this pass. Each is made when the iterator reaches it."""
        if len(self._groups) == 1:
            [frame_group] = self._groups
            # S002-30: handed over once, with all of its receivers.
            return iter((_blob(self._log, frame_group.sessions),))
        sharing: dict[tuple[SessionId, ...], list[PureFrameGroup]] = {}
        for frame_group in self._groups:
            sharing.setdefault(frame_group.sessions, []).append(frame_group)
        hearing = dict.fromkeys(chain.from_iterable(sharing))
        if len(hearing) == sum(map(len, sharing)):
            return self._shared(sharing)
        return self._one_by_one(line_of, hearing)

    def _shared(self, sharing: dict[tuple[SessionId, ...], list[PureFrameGroup]]) -> Iterator[Blob]:
        """One blob for all receivers, if none of them gets anything else."""
        logs: dict[PureFrameGroup, list[Logged]] = {}
        for frame_groups in sharing.values():
            log: list[Logged] = []
            logs.update(dict.fromkeys(frame_groups, log))
        for logged in self._log:
            logs[logged[0]].append(logged)
        for sessions, frame_groups in sharing.items():
            yield _blob(logs[frame_groups[0]], sessions)

    def _one_by_one(self, line_of: LineOf, hearing: Iterable[SessionId]) -> Iterator[Blob]:
        """A blob for each session, put together from its frames."""
        lines = self._lines or self._found(line_of, hearing)
        more: dict[SessionId, int] = {}
        # S002-40, RESP-43: in the order of publishing.
        for frame_group, frames, count in self._log:
            for line in frame_group.lines:
                line.append(frames)
            if count > 1:
                for session in frame_group.sessions:
                    more[session] = more.get(session, 0) + count - 1
        for session, line in lines.items():
            if line:  # else another caller took it while an earlier blob was written
                messages = len(line)
                if more:
                    messages += more.get(session, 0)
                blob = b"".join(line)
                line.clear()
                yield blob, (session,), messages


Pass = part("headgate.core.channels._passes", "Pass", PurePass)


class PureOpenPass:
    """The pass that plain messages are published to, and who hears them. `Channels` is made of it:
    what is compiled asks nothing else of them, and leaves what is not known here to them. Most
    passes of the loop write one such pass, so it is also ended and taken here."""

    _moment: int
    """Another one after every change of a roster."""
    _pass: PurePass
    """What was published and not taken, and goes to the rosters of this moment."""
    _passes: list[PurePass]
    """Of earlier moments, or full."""
    _exact: Mapping[bytes, Heard]
    """The audiences of exact channels, each as it was in its own moment."""
    _exact_here: Mapping[bytes, Heard]
    """The same without other workers, for messages that these published."""
    _by_session: dict[SessionId, SessionChannels]
    """Who subscribes to anything."""
    tap: Tap | None
    """Told of everything that is published, while somebody looks."""
    is_unwritten: bool
    """Whether there is something to take."""

    def flush(self) -> None:
        """End the current pass: its messages go to the rosters as they are now, when the shell
        takes them."""
        if self._pass:
            self.is_unwritten = True
            self._passes.append(self._pass)
            self._pass = self._pass.following()

    def take(self) -> Iterator[Blob]:
        """The blobs to be written, each with its receivers and number of messages. Each blob is
        made when the iterator reaches it."""
        self.flush()
        self.is_unwritten = False
        passes, self._passes = self._passes, []
        if len(passes) == 1:
            return passes[0].blobs(self._line)
        return self._all_blobs(passes)

    # What the channels know.

    @abstractmethod
    def _line(self, session: SessionId) -> PureLine:
        """The buffer for the frames of a session."""

    @abstractmethod
    def _all_blobs(self, passes: Sequence[PurePass]) -> Iterator[Blob]:
        """The blobs of several passes, or of none, in a row."""


if TYPE_CHECKING:
    OpenPass = PureOpenPass
else:
    OpenPass = part("headgate.core.channels._passes", "OpenPass", PureOpenPass)


def _blob(log: Sequence[Logged], sessions: Sequence[SessionId]) -> Blob:
    blob = b"".join([frames for _, frames, _ in log])
    return blob, sessions, sum([count for _, _, count in log])
