"""Work of a worker for the others: commands of their sessions, changes of settings and users."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headgate.core.model.ids import SessionId
from headgate.core.redis.acl_log import AclLog
from headgate.errors import HeadgateError
from headgate.wire.resp.codec.replies import CommandError, Decided, Encoded, Parts, Reply, encode
from headgate.wire.resp.command_cost import charge
from headgate.wire.resp.commands.acl import REASON, known_rules, may_keep
from headgate.wire.resp.commands.config import SETTINGS
from headgate.wire.resp.commands.info import fields_of
from headgate.wire.resp.commands.table import CommandEntry
from headgate.wire.resp.reply_mode import SILENT
from headgate.wire.resp.session import RespSession
from headgate.wire.resp.workers.caller import (
    Call,
    Caller,
    Mark,
    Outcome,
    bulk_text,
    caller_of,
    stand_in,
)
from headgate.wire.resp.workers.places import CHANGES, HOME, OF_THE_SESSION

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.workers.link_session import LinkSession
    from headgate.wire.resp.workers.questions import Answers
    from headgate.wire.resp.workers.relay import Relay

SLICE_SECONDS = 0.005
"""Seconds of making an answer in parts before others get a turn."""


class Unmade(NamedTuple):
    """An answer in parts that is being made, or waits for that."""

    session: RespSession
    parts: Iterator[Reply]
    blobs: list[bytes]
    """The parts that are made."""
    done: Callable[[list[bytes]], None]


class ServingOthers:
    """Answers the questions of other workers. Owned by the relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.ending: set[SessionId] = set()
        """Sessions to close after their answer: their own rules changed."""
        self._unmade: deque[Unmade] = deque()
        """Answers in parts, made one after another: each is in memory until all of it is made."""
        relay.questions.handlers.update(
            {
                b"run": self._run,
                b"apply": self._apply,
                b"adopt": self._adopt,
                b"stamps": self._stamps,
                b"info": self._info,
                b"list": self._list,
                b"denied": self._denied,
            }
        )

    @property
    def _hub(self) -> Hub:
        return self._relay.hub

    # Commands.

    def _run(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        """Carry out a command, or a transaction, for a session of another worker."""
        call = msgspec.msgpack.decode(words[0], type=Call)
        hub, session = self._hub, stand_in(self._hub, call.caller)
        changes: list[list[bytes]] = []
        if call.watched is None:
            [command] = call.commands
            entry = noted(hub.table.find(command), changes.append)
        else:
            subscribes = any(hub.table.find(each).is_confirmed for each in call.commands)
            session.queued = [
                (noted(_placed(hub.table.find(each), place, subscribes), changes.append), each)
                for place, each in enumerate(call.commands)
            ]
            session.watched = {(db, key): stamp for db, key, stamp in call.watched}
            command = [b"EXEC"]
            entry = hub.table.find(command)
        hub.sessions[session.id] = session  # for the time that its own user may be looked for
        try:
            if call.watched is None:
                charge(session, entry, command)
            result = session.attempt(entry, command)
        except HeadgateError as failed:
            result = session.failure(failed)
        del hub.sessions[session.id]

        def finish(blobs: list[bytes]) -> None:
            is_decided = type(result) is Decided
            outcome = Outcome(blobs, caller_of(session), is_decided, session.is_closing)
            content = msgspec.msgpack.encode(outcome)
            self.pass_on(session.id, changes, lambda answers: reply(content))

        if type(result) is Parts:
            self._unmade.append(Unmade(session, iter(result), [], finish))
            if len(self._unmade) == 1:
                self._make()
        elif type(result) is Decided:
            finish([*map(bytes, result)])
        else:
            finish([encode(result, session.protocol)])

    def _make(self) -> None:
        """Make answers in parts; others get a turn in between."""
        clock = self._hub.shell.clock
        end = clock() + SLICE_SECONDS
        while self._unmade:
            session, parts, blobs, done = self._unmade[0]
            try:
                for part in parts:
                    blobs.append(encode(part, session.protocol))
                    if clock() > end:
                        self._hub.shell.next_pass(self._make)
                        return
            except HeadgateError as failed:
                blobs.append(encode(session.failure(failed), session.protocol))
            except Exception:
                self._unmade.popleft()
                self._hub.shell.next_pass(self._make)  # the others do not wait for it
                raise
            self._unmade.popleft()
            done(blobs)

    def _stamps(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        db, hub = int(words[0]), self._hub
        now = hub.shell.clock()
        for key in words[1:]:
            hub.keys.has(db, key, now)
        hub.publish_expired()
        reply(msgspec.msgpack.encode([hub.keys.stamp(db, key) for key in words[1:]]))

    def _list(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        call = msgspec.msgpack.decode(words[0], type=Call)
        [command] = call.commands
        session = stand_in(self._hub, call.caller)
        rows: list[tuple[float, bytes]] = []
        with suppress(HeadgateError):  # which the asking worker finds, too
            rows = self.rows_of(session, session.attempt(self._hub.table.find(command), command))
        reply(msgspec.msgpack.encode(rows))

    def _info(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        reply(msgspec.msgpack.encode(fields_of(self._hub)))

    def rows_of(self, session: RespSession, reply: Reply) -> list[tuple[float, bytes]]:
        """The lines of a list of the sessions here, each with the time of its connection."""
        if isinstance(reply, HeadgateError):
            raise reply
        sessions = self._hub.sessions
        lines = (bulk_text(encode(reply, 2)) or "").splitlines(keepends=True)
        ids = [SessionId(int(line.partition(" ")[0].removeprefix("id="))) for line in lines]
        return [
            (sessions[id].since, line.encode(errors="surrogateescape"))
            for id, line in zip(ids, lines, strict=True)
            if id in sessions
        ]

    # Changes of settings and users.

    def pass_on(
        self, session: SessionId, changes: list[list[bytes]], done: Callable[[Answers], None]
    ) -> None:
        """Have others do what was done here."""
        others = self._relay.others() if changes else []
        self._relay.questions.ask(others, change_words(session, changes), done)

    def _apply(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        """Repeat worker 0's change of settings or users. A session that made it and is closed by it
        is answered first."""
        hub = self._hub
        changer = stand_in(hub, Caller(0, "", "", "default", 0, 2, b"", "on", 0))
        with self.spared(hub.sessions.get(SessionId(int(words[0])))):
            for command in msgspec.msgpack.decode(words[1], type=list[list[bytes]]):
                changer.attempt(hub.table.find(command), command)
        reply(b"")

    @contextmanager
    def spared(self, asker: RespSession | None) -> Iterator[None]:
        """A context for changes of users. If the session that makes them loses its own user, it is
        not closed before it is answered."""
        if asker is None or asker.user is None:
            yield
            return
        user, asker.user = asker.user, None
        try:
            yield
        finally:
            asker.user = user
        if self._hub.access.get(user.name.encode()) is not user or not may_keep(user, asker):
            self.ending.add(asker.id)

    # Users and settings of a new worker.

    def join(self, link: LinkSession) -> None:
        """Send a new worker the users and settings, if this is worker 0."""
        if self._relay.number != HOME:
            return
        hub = self._hub
        settings = {name: known.read(hub) for name, known in SETTINGS.items()}
        words = (b"adopt", bytes(hub.access), msgspec.msgpack.encode(settings))
        self._relay.questions.ask([link], words, ignore)

    def _adopt(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        hub = self._hub
        settings = msgspec.msgpack.decode(words[1], type=dict[str, str])
        settings.pop("requirepass", None)  # a setting that is part of a user
        for name, text in settings.items():
            with suppress(ValueError, KeyError):  # a setting that cannot change
                SETTINGS[name].prepare(hub, text)()
        gone = set(hub.access.load(words[0], "worker 0", known_rules(hub.table)))
        for other in list(hub.sessions.values()):
            user = other.user
            if user is not None and (user in gone or not may_keep(user, other)):
                other.close(REASON)
        hub.wake_all()
        reply(b"")

    def deny(
        self, reason: str, context: str, object: bytes, user: str, client: str, now: float
    ) -> None:
        """Have worker 0 log that a command was denied here."""
        content = msgspec.msgpack.encode(
            (reason, context, object, user, client.encode(errors="replace"), now)
        )
        self._relay.questions.ask(self._relay.home_links(), (b"denied", content), ignore)

    def _denied(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        reason, context, object, user, client, now = msgspec.msgpack.decode(
            words[0], type=tuple[str, str, bytes, str, bytes, float]
        )
        self._hub.logins.denials.add(reason, context, object, user, client.decode(), now)
        reply(b"")


class ForwardedAclLog(AclLog):
    """The log of worker 0, for denials by this worker."""

    def __init__(self, serving: ServingOthers) -> None:
        super().__init__()
        self._serving = serving

    def add(
        self, reason: str, context: str, object: bytes, user: str, client: str, now: float
    ) -> None:
        self._serving.deny(reason, context, object, user, client, now)


def ignore(answers: Answers) -> None:
    """Ignore the answers: the questions were only to have it done."""


def change_words(asker: SessionId, changes: list[list[bytes]]) -> tuple[bytes, ...]:
    return b"apply", b"%d" % asker, msgspec.msgpack.encode(changes)


def noted(entry: CommandEntry, done: Callable[[list[bytes]], None]) -> CommandEntry:
    """A command whose change of settings or users is told when it is done: in a transaction it
    may be refused when its turn comes, or not be tried."""
    run = entry.run
    if entry.name not in CHANGES or run is None:
        return entry
    names = [name.encode() for name in entry.name.split("|")]

    def change(session: RespSession, args: list[bytes]) -> Reply:
        reply = run(session, args)
        if type(reply) is not CommandError:
            done([*names, *args])
        return reply

    return replace(entry, run=change)


def _placed(entry: CommandEntry, place: int, subscribes: bool) -> CommandEntry:
    """A command of a transaction, as worker 0 carries it out: a command for the session's own
    worker, such as a subscription, only leaves a mark in its place, also where it is not answered.
    A session that subscribes may get messages that it publishes after that, so they are published
    there, too."""
    is_own = entry.is_confirmed or entry.name in OF_THE_SESSION
    if not is_own and not (subscribes and entry.publishes is not None):
        return entry

    def leave(session: RespSession, args: list[bytes]) -> Reply:
        return Encoded(bytes(Mark(place, session.protocol, session.answers in SILENT)))

    return replace(entry, run=leave, is_confirmed=True)
