"""The relay of a worker: its links to the others, and the traffic over them.

A session is subscribed when every other worker knows of it; messages published here go to the
workers with subscribers, and theirs to the sessions here. Blocked publishers are reported, too. The
core makes all decisions: `Peers`, `Announcements` and the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from headgate.core.channels.announcements import Announcements
from headgate.core.channels.audience import Kind
from headgate.core.channels.peers import InterestChange, Name, Peers
from headgate.core.model.ids import SessionId
from headgate.errors import HeadgateError
from headgate.wire.resp.commands.acl import is_allowed
from headgate.wire.resp.port import HERE, WAIT, OtherWorkers
from headgate.wire.resp.workers import link_frames as frames
from headgate.wire.resp.workers.link_session import LinkPort, LinkSession
from headgate.wire.resp.workers.overhearing import Overhearing
from headgate.wire.resp.workers.places import HOME
from headgate.wire.resp.workers.placing import Placing
from headgate.wire.resp.workers.questions import Questions
from headgate.wire.resp.workers.serving_others import ServingOthers

if TYPE_CHECKING:
    from headgate.wire.resp.codec.replies import Reply
    from headgate.wire.resp.commands.table import CommandEntry
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession

OVER = 4
"""A mailbox that holds so many times its limit, although its publishers were blocked, takes no more
messages from other workers."""

SUBSCRIBING = {
    "subscribe": (Kind.EXACT, 1),
    "psubscribe": (Kind.PATTERN, 1),
    "ssubscribe": (Kind.SHARDED, 1),
    "unsubscribe": (Kind.EXACT, -1),
    "punsubscribe": (Kind.PATTERN, -1),
    "sunsubscribe": (Kind.SHARDED, -1),
}
"""The commands of which every worker has to know first."""


AT_ONCE = 2000
"""Names that are looked at in one pass; others get a turn between two passes."""

RUN = 1000
"""Commands of a pipeline that are searched for more subscriptions, and the names in them."""


def wishes_of_one(
    session: RespSession, entry: CommandEntry, names: Sequence[bytes]
) -> Iterator[tuple[Name, int]]:
    """The same as `wishes_of` for one command, which may have very many names."""
    kind, change = SUBSCRIBING[entry.name]
    mine = session.interests.of(kind)
    for name in names or [*mine]:
        if (name in mine) != (change > 0):
            yield (kind, name), change


def wishes_of(
    session: RespSession, commands: Iterable[tuple[CommandEntry, list[bytes]]]
) -> dict[Name, int]:
    """The names that a session will be newly subscribed to after these commands (1), or no longer
    (-1)."""
    named: dict[Name, bool] = {}
    """For each name in these commands, whether the last of them subscribes to it."""
    left: set[Kind] = set()
    for entry, command in commands:
        kind, change = SUBSCRIBING.get(entry.name, (Kind.EXACT, 0))
        if not change or (session.queued is not None and entry.name == "ssubscribe"):
            continue  # refused in a transaction
        if len(command) == 1:
            left.add(kind)
            named = {name: is_held and name[0] is not kind for name, is_held in named.items()}
        named.update(dict.fromkeys([(kind, name) for name in command[1:]], change > 0))
    mine = session.interests
    for kind in left:
        named = dict.fromkeys([(kind, name) for name in mine.of(kind)], False) | named
    return {
        (kind, name): 1 if is_held else -1
        for (kind, name), is_held in named.items()
        if is_held != (name in mine.of(kind))
    }


class RelayPort(Protocol):
    """The port of the relay: what it calls in its own process."""

    def relieve(self, session: SessionId) -> None:
        """Let publishers go on that waited for a session of another worker, which takes messages
        again."""
        ...

    def synced(self) -> None:
        """Note that the subscriptions of a worker are known."""
        ...


class Lane(Protocol):
    """The lane over links beside channels: commands of durable wires, and their effects."""

    def joined(self, link: LinkSession) -> None: ...

    def left(self, link: LinkSession) -> None: ...

    def receive(self, link: LinkSession, blob: bytes) -> None: ...


class Relay(OtherWorkers):
    """The other workers, as the hub of this one uses them. The worker makes one for its hub."""

    def __init__(self, hub: Hub, port: RelayPort, number: int, start: int) -> None:
        self.hub = hub
        self.port = port
        self.number = number
        """Number of this worker. Worker 0 has the state that exists once."""
        self.start = start
        self.lane: Lane | None = None
        self.links: dict[int, LinkSession] = {}
        """By the number of the worker at the other end."""
        self.announcements = Announcements(hub.channels.subscribers_here)
        self.peers = Peers(frames.PUBLISH_FORM, self._changed, hub.channels.subscribers_here)
        self.questions = Questions(self)
        self.serving = ServingOthers(self)
        self.placing = Placing(self)
        self.overhearing = Overhearing(self)
        self._is_going_on = False
        self._asked: dict[SessionId, None] = {}
        """Sessions that wait since the last pass."""
        self._unsynced: dict[SessionId, Iterator[InterestChange]] = {}
        """Links to workers that lack earlier announcements, and what they are still to be sent."""
        self._granted: dict[SessionId, int] = {}
        """Sessions whose pending changes all workers know, about to be made; and the number of
        their commands."""
        self._running: dict[SessionId, int] = {}
        """Number of a session's commands that its pending changes are for, if more than one."""
        self._settling: dict[SessionId, None] = {}
        """Sessions whose changes were made, as far as possible."""
        self._blocks: dict[SessionId, dict[int, dict[Name, None]]] = {}
        """Sessions here that block publishers: the workers and the names that were reported."""
        hub.channels.link_up(self.peers)
        hub.elsewhere = self

    # Links.

    def join(self, port: LinkPort, worker: int, start: int) -> LinkSession:
        """Add the link to another worker, and send it all that it has to know."""
        known = self.links.get(worker)
        if known is not None:
            known.port.close("another of its lives is linked")
        link = self.links[worker] = LinkSession(self, port, worker, start)
        self.hub.channels.before_peers_change()
        self.peers.join(link.id)
        self.hub.add_link(link.id, port.deliver)
        port.write(frames.hello(self.number, self.start))
        self.announcements.join(link.id)
        self._unsynced[link.id] = self.announcements.everything()
        self._sync(link)
        self.overhearing.join(link)
        self.serving.join(link)
        if self.lane is not None:
            self.lane.joined(link)
        return link

    def leave(self, link: LinkSession) -> None:
        """Remove the link to a worker that is gone. No session waits for it any more."""
        if self.links.get(link.worker) is link:
            del self.links[link.worker]
        self.hub.channels.before_peers_change()
        self.hub.remove_link(link.id)
        self.peers.leave(link.id)
        self.peers.clear_away(AT_ONCE)
        self._unsynced.pop(link.id, None)
        self._go_on_soon()
        self.overhearing.leave(link)
        for session in self.peers.blocking_of(link.id):
            self.eased(session)
        for workers in self._blocks.values():
            workers.pop(link.worker, None)
        self.announcements.leave(link.id)
        self._grant(self.announcements.free())
        self.questions.leave(link)
        if self.lane is not None:
            self.lane.left(link)
        self.port.relieve(link.id)
        self.port.synced()

    def others(self) -> list[LinkSession]:
        """The links to all other workers."""
        return list(self.links.values())

    def home_links(self) -> list[LinkSession]:
        """The link to worker 0, if it is there."""
        return [self.links[HOME]] if HOME in self.links else []

    def beat(self) -> None:
        """Send all workers a sign of life. Called once a second."""
        for link in self.links.values():
            link.port.write(frames.BEAT_FRAME)

    # Sessions.

    def step(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
        """The decision about a command of a session here: its answer, if it was carried out
        elsewhere; or `HERE`, or `WAIT`."""
        if entry.name in SUBSCRIBING:
            kind, change = SUBSCRIBING[entry.name]
            if change > 0:
                self.hub.channels.check_names(session.id, kind, command[1:])
            return self._agree(session, wishes_of_one(session, entry, command[1:]))
        if entry.name == "reset":
            mine = session.interests
            held = [(kind, mine.of(kind)) for kind in Kind]
            return self._agree(session, (((kind, n), -1) for kind, names in held for n in [*names]))
        if entry.name == "monitor":
            self.overhearing.begin(session.id)
            return self._agree(session, ())
        if entry.name == "exec" and session.queued and not session.broken:
            wanted = wishes_of(session, session.queued)
            if wanted and self._agree(session, wanted.items()) is WAIT:
                return WAIT
        return self.placing.step(session, entry, command)

    def resume(self, session: RespSession) -> Reply:
        return self.placing.resume(session)

    def check_queued(self, entry: CommandEntry) -> None:
        self.placing.check_queued(entry)

    def disconnect(self, session: SessionId) -> None:
        """Remove a session of this worker that is gone."""
        self.announcements.forget(session)
        self._granted.pop(session, None)
        self._running.pop(session, None)
        self._settling.pop(session, None)
        self.placing.disconnect(session)
        self.unblock(session)
        if self.announcements.is_due:
            self._go_on_soon()

    def _agree(self, session: RespSession, wishes: Iterable[tuple[Name, int]]) -> Reply:
        """Have a session wait until every worker knows of its coming changes."""
        left = self._granted.pop(session.id, 0)
        if left:
            if left > 1:
                self._granted[session.id] = left - 1
            self._settling[session.id] = None
            return HERE
        if not self.announcements.is_waiting(session.id):
            self.announcements.forget(session.id)
            self._settling.pop(session.id, None)
            self._running.pop(session.id, None)
            self.announcements.wish(session.id, wishes)
            self._asked[session.id] = None
            self._go_on_soon()
        session.outlet.pause(may_leave=False)
        return WAIT

    def _look_ahead(self, session: RespSession) -> None:
        """Wish for all subscriptions that follow one another in a pipeline and will not be refused,
        so that their session waits once for all of them."""
        run: list[tuple[CommandEntry, list[bytes]]] = []
        names = 0
        for command in session.pending[:RUN]:
            names += len(command)
            if names > 2 * RUN:
                break
            try:
                entry = self.hub.table.find(command)
                if entry.name not in SUBSCRIBING or not is_allowed(session, entry, command):
                    break
                self.hub.channels.check_names(session.id, SUBSCRIBING[entry.name][0], command[1:])
            except HeadgateError:
                break
            run.append((entry, command))
        if len(run) > 1:
            self.announcements.forget(session.id)
            self.announcements.wish(session.id, wishes_of(session, run).items())
            self._running[session.id] = len(run)

    def settle(self) -> None:
        """Drop pending changes that were not made after all. Called now and then."""
        for id in list(self._settling):
            session = self.hub.sessions.get(id)
            if session is not None and session.pending and id in self._granted:
                continue  # the rest of its announced commands is still to be carried out
            if session is None or session.parts is None:
                del self._settling[id]
                self._granted.pop(id, None)
                self.announcements.forget(id)
        if self.announcements.is_due:
            self._go_on_soon()
        self.overhearing.settle()
        self.relieved()

    # Announcements.

    def _changed(self, session: SessionId, kind: Kind, names: Sequence[bytes]) -> None:
        self.announcements.changed(session, kind, names)
        self._go_on_soon()
        if session in self._blocks:
            self.unblock(session)

    def _go_on_soon(self) -> None:
        if not self._is_going_on:
            self._is_going_on = True
            self.hub.shell.soon(self._go_on)

    def _go_on(self) -> None:
        """Announce some changes, and go on with what is too much for one pass."""
        self._is_going_on = False
        if self.announcements.is_due:
            self._announce()
        for link in [each for each in self.others() if each.id in self._unsynced]:
            self._sync(link)
        if self.peers.is_cluttered:
            self.hub.channels.before_peers_change()
            self.peers.clear_away(AT_ONCE)
        if self.announcements.is_due or self._unsynced or self.peers.is_cluttered:
            self._go_on_soon()

    def _announce(self) -> None:
        for id in self._asked:
            session = self.hub.sessions.get(id)
            if session is not None and len(session.pending) > 1 and session.queued is None:
                self._look_ahead(session)
        self._asked.clear()
        changes = self.announcements.take(AT_ONCE)
        for link in self.links.values():
            number = None if link.id in self._unsynced else self.announcements.number
            for blob in frames.hear(number, changes):
                link.port.write(blob)
        self._grant(self.announcements.free())

    def _sync(self, link: LinkSession) -> None:
        """Send a new worker more of the earlier announcements. The last frame has the number of
        all that it knows then."""
        some = [*islice(self._unsynced[link.id], AT_ONCE)]
        is_last = len(some) < AT_ONCE
        for blob in frames.hear(self.announcements.number if is_last else None, some):
            link.port.write(blob)
        if is_last:
            del self._unsynced[link.id]
        else:
            self._go_on_soon()

    def _grant(self, sessions: Iterable[SessionId]) -> None:
        for session in sessions:
            self._granted[session] = self._running.pop(session, 1)
            self.hub.go_on_soon(session)

    def heard(
        self, link: LinkSession, announced: int | None, changes: Sequence[InterestChange]
    ) -> None:
        """Note the announced subscriptions of another worker."""
        if changes:
            self.hub.channels.before_peers_change()
            self.peers.change(link.id, changes)
            if self.hub.waiting:
                self.hub.wake_all()
        if announced is None:
            return
        # Earlier messages go first: a worker that asks for an acknowledgement has them then.
        self.hub.flush_for((link.id,))
        link.port.write(frames.know(announced))
        if not link.is_synced:
            link.is_synced = True
            self.port.synced()

    def known(self, link: LinkSession, announced: int) -> None:
        self._grant(self.announcements.known(link.id, announced))

    # Messages.

    @property
    def is_full(self) -> bool:
        """Whether earlier messages are still being written."""
        return bool(self.hub.left)

    @property
    def is_calm(self) -> bool:
        """Whether every session here takes its messages, and nobody watches what is published."""
        return not self.hub.budget.stuck and self.hub.channels.tap is None

    def call_when_written(self, call: Callable[[], None]) -> None:
        self.hub.call_when_written(call)

    def delivered(self, link: LinkSession, kind: Kind, names: Collection[bytes]) -> None:
        """Publish messages of another worker to the sessions here, and report those that cannot
        take more."""
        hub = self.hub
        if not hub.channels.is_unwritten:
            return
        hub.flush_soon()
        budget = hub.budget
        if not budget.stuck or hub.settings.slow_session != "wait":
            return
        most = OVER * budget.mailbox_hard
        if any(budget.stuck[id].bytes > most for id in budget.stuck if id in hub.sessions):
            hub.flush_with_room()
        else:
            hub.flush_for(budget.stuck)  # uncharged data would not count
        for channel in {*names}:
            for session in hub.channels.hearing(kind, channel, budget.stuck):
                if session in hub.sessions and budget.is_blocking(session):
                    self._block(link, session, kind, channel)

    def _block(self, link: LinkSession, session: SessionId, kind: Kind, channel: bytes) -> None:
        sent = self._blocks.setdefault(session, {}).setdefault(link.worker, {})
        for name in self.hub.channels.heard_by(kind, channel, session):
            if name not in sent:
                sent[name] = None
                link.port.write(frames.block(session, name))

    def relieved(self) -> None:
        """Report sessions here that take messages again. Called whenever a mailbox shrinks."""
        if self._blocks:
            budget, waits = self.hub.budget, self.hub.settings.slow_session == "wait"
            for session in list(self._blocks):
                if not waits or not budget.is_blocking(session):
                    self.unblock(session)

    def unblock(self, session: SessionId) -> None:
        """Tell other workers that a session here no longer blocks publishers."""
        for worker in self._blocks.pop(session, {}):
            if worker in self.links:
                self.links[worker].port.write(frames.ease(session))

    def blocked(self, link: LinkSession, session: SessionId, name: Name) -> None:
        self.peers.block(link.id, session, name, self.hub.budget)

    def eased(self, session: SessionId) -> None:
        if self.peers.ease(session, self.hub.budget):
            self.port.relieve(session)

    # Frames of other workers.

    def listening(self, link: LinkSession, is_listening: bool) -> None:
        self.overhearing.listening(link, is_listening)

    def overheard(self, line: bytes) -> None:
        self.overhearing.heard(line)

    def asked(self, link: LinkSession, question: int, word: bytes, words: list[bytes]) -> None:
        self.questions.asked(link, question, word, words)

    def answered(self, link: LinkSession, question: int, content: bytes) -> None:
        self.questions.answered(link, question, content)
