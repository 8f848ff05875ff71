"""The two ends of the commands lane on the links of a worker."""

from __future__ import annotations

from functools import partial

from headgate.core.delivery.mailbox import PART
from headgate.server.workers.front_sessions import FrontSessions
from headgate.server.workers.membership import WorkerRouter
from headgate.server.workers.remote_router import RemoteRouter
from headgate.wire.resp.workers import link_frames as frames
from headgate.wire.resp.workers.link_session import LinkSession
from headgate.wire.resp.workers.places import HOME


class HomeLane:
    """The end of worker 0, which has the shard and the sessions of each front."""

    def __init__(self, router: WorkerRouter) -> None:
        self._router = router
        self._fronts: dict[LinkSession, FrontSessions] = {}
        router.turned = self._turned

    def joined(self, link: LinkSession) -> None:
        self._fronts[link] = FrontSessions(self._router, partial(_send, link))

    def left(self, link: LinkSession) -> None:
        self._fronts.pop(link).close()

    def receive(self, link: LinkSession, blob: bytes) -> None:
        self._fronts[link].receive(blob)

    def _turned(self, taken: int) -> None:
        for sessions in self._fronts.values():
            sessions.turned(taken)


class FrontLane:
    """The end of another worker, whose sessions send commands to worker 0."""

    def __init__(self, remote: RemoteRouter) -> None:
        self._remote = remote

    def joined(self, link: LinkSession) -> None:
        if link.worker == HOME:
            self._remote.joined(partial(_send, link))

    def left(self, link: LinkSession) -> None:
        if link.worker == HOME:
            self._remote.left()

    def receive(self, link: LinkSession, blob: bytes) -> None:
        self._remote.receive(blob)


def _send(link: LinkSession, blob: bytes) -> None:
    """Send at once: the blob is all of a pass already, and another pass of the loop costs more than
    the write."""
    for part in frames.lane(blob):
        link.port.deliver(part, PART)
