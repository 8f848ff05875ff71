"""Several hubs that are linked as workers are, with no process around them."""

from __future__ import annotations

from collections import deque
from itertools import count

from headgate.core.delivery.mailbox import Mailbox
from headgate.core.model.ids import SessionId
from headgate.core.model.limits import Limits
from headgate.wire.resp.workers.link_session import LinkSession
from headgate.wire.resp.workers.relay import Relay
from tests.support.resp_hub import Guest, House

PASSES = 200
"""After so many everything is quiet, or never will be."""


class CrewHouse(House):
    """The shell of one worker."""

    relay: Relay

    def __init__(self, number: int, workers: int, limits: Limits | None = None) -> None:
        super().__init__(limits=limits)
        self.hub.broker.sessions.spread(number, workers)
        self.relay = Relay(self.hub, self, number, 1)

    def relieve(self, session: SessionId) -> None:
        super().relieve(session)
        self.relay.relieved()

    def synced(self) -> None:
        """Nobody waits for that here."""


class CrewLink:
    """One end of a link: what is written waits until it is carried over."""

    def __init__(self, house: CrewHouse, worker: int) -> None:
        self.house = house
        self.id = house.hub.broker.sessions.next_id()
        self.mailbox = Mailbox(self.id, house.hub.budget)
        self.sent: deque[bytes] = deque()
        self.is_held = False
        """The other worker takes nothing: what is sent waits in the mailbox."""
        self.is_paused = False
        self.ended = ""
        self.session: LinkSession = house.relay.join(self, worker, 1)
        self.other: CrewLink

    @property
    def unwritten(self) -> int:
        return self.mailbox.bytes

    def write(self, frame: bytes) -> None:
        self.deliver(frame, 1)

    def deliver(self, blob: bytes, messages: int) -> None:
        if self.is_held:
            self.mailbox.offer(blob, len(blob), self.house.now, messages=messages)
        else:
            self.sent.append(blob)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def close(self, reason: str) -> None:
        self.ended = reason

    def release(self) -> None:
        """The other worker takes what waits, one by one."""
        self.is_held = False
        while len(self.mailbox):
            item = self.mailbox.take(self.house.now)
            assert isinstance(item, bytes)
            self.sent.append(item)
            self.house.relieve(self.id)
            self.house.relay.questions.taken(self.session)

    def carry(self) -> bool:
        """Hand over what was sent; whether there was something."""
        if not self.sent or self.other.is_paused:
            return False
        blob = b"".join(self.sent)
        self.sent.clear()
        self.other.session.receive(blob)
        return True

    def cut(self) -> None:
        """The worker at the other end is gone."""
        self.mailbox.close()
        self.sent.clear()
        self.house.relay.leave(self.session)


class Crew:
    """So many workers, each linked to each."""

    def __init__(self, workers: int, limits: Limits | None = None) -> None:
        self.houses = [CrewHouse(number, workers, limits) for number in range(workers)]
        self.links: dict[tuple[int, int], CrewLink] = {}
        for one in range(workers):
            for two in range(one):
                ends = CrewLink(self.houses[one], two), CrewLink(self.houses[two], one)
                ends[0].other, ends[1].other = ends[1], ends[0]
                self.links[one, two], self.links[two, one] = ends
        self.peers = count(50_000)
        self.settle()

    def guest(self, worker: int) -> CrewGuest:
        guest = CrewGuest(self, worker % len(self.houses))
        guest.session.peer = f"127.0.0.1:{next(self.peers)}"
        return guest

    def settle(self) -> None:
        """Let everything happen that is under way."""
        for _ in range(PASSES):
            if not self.step():
                return
        raise AssertionError("it is never quiet")

    def step(self) -> bool:
        """One pass of every worker, and what they sent meanwhile; whether there was anything."""
        is_busy = False
        for house in self.houses:
            is_busy |= bool(house.calls)
            house.end_pass()
        for link in self.links.values():
            is_busy |= link.carry()
        return is_busy


class CrewGuest(Guest):
    """One client of a worker."""

    def __init__(self, crew: Crew, worker: int) -> None:
        super().__init__(crew.houses[worker])
        self.crew = crew

    def raw(self, *words: str | bytes | int) -> bytes:
        """Send a command, and wait until everything is quiet; return what came to this client."""
        received = super().raw(*words)
        self.crew.settle()
        received += self.received
        self.received = b""
        return received

    def heard(self) -> bytes:
        """What came since it last looked."""
        received, self.received = self.received, b""
        return received
