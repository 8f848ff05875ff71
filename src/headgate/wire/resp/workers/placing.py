"""Which worker carries out a command: the session's own, worker 0, or all of them.

Keys, settings and users are worker 0's. The others ask it, one command or one transaction at a
time; what changes settings or users is carried out there first, then by all others, and then
answered.
Each worker has users and settings of its own to look at, which are always those of worker 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from headgate.core.model.ids import SessionId
from headgate.core.redis.acl_log import AclLog
from headgate.errors import HeadgateError, LimitReached
from headgate.wire.resp.codec.replies import (
    OK,
    CommandError,
    Decided,
    Encoded,
    Parts,
    Reply,
    Verbatim,
    encode,
    text_of,
)
from headgate.wire.resp.command_cost import charge
from headgate.wire.resp.commands.acl import REASON, known_rules, may_keep
from headgate.wire.resp.commands.config import SETTINGS
from headgate.wire.resp.commands.info import fields_of, report
from headgate.wire.resp.commands.monitor import send_to_monitors
from headgate.wire.resp.commands.table import CommandEntry
from headgate.wire.resp.port import HERE, WAIT
from headgate.wire.resp.publishing import may_run
from headgate.wire.resp.session import RespSession
from headgate.wire.resp.workers.caller import (
    Call,
    Caller,
    Outcome,
    bulk_text,
    caller_of,
    mark,
    marked,
    stand_in,
    take_over,
)

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.workers.link_session import LinkSession
    from headgate.wire.resp.workers.questions import Answers
    from headgate.wire.resp.workers.relay import Relay

HOME = 0
"""The worker that has what is single."""
SLICE_SECONDS = 0.005
"""How long an answer in parts is made before others get their turn."""

KEY_FLAGS = frozenset(("readonly", "write"))
CHANGES = frozenset(("config|set", "config|resetstat", "acl|setuser", "acl|deluser", "acl|load"))
"""Carried out by all workers, worker 0 first."""
AT_HOME = CHANGES | frozenset(
    ("config|get", "acl|list", "acl|users", "acl|getuser", "acl|log", "acl|save")
)
EVERYWHERE = frozenset(("client|list", "client|kill", "info"))
OF_THE_SESSION = EVERYWHERE | frozenset(("client|info", "client|setinfo", "monitor", "ping"))
"""Carried out by the session's own worker, also in a transaction with keys."""
BLOCKING = "ERR commands that wait for a key need a router of one process: set workers.count = 1"
NO_HOME = "LOADING the worker that has keys and users is being started again"

Answer: TypeAlias = Callable[[], Reply]
"""Makes the answer of a command, when the session is there to be given it."""


def is_of_keys(entry: CommandEntry) -> bool:
    """Whether a command is about keys, and not about channels."""
    return bool(KEY_FLAGS & {*entry.flags}) or entry.name == "watch"


def is_at_home(entry: CommandEntry) -> bool:
    return is_of_keys(entry) or entry.name in AT_HOME


class Placing:
    """Where the commands of this worker's sessions go, and what others ask of it. The relay owns
    it."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._answers: dict[SessionId, Answer | None] = {}
        """Of sessions whose command is elsewhere: the answer, once it is there."""
        self._ending: set[SessionId] = set()
        """Those that are closed after their answer: their own rules changed."""
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

    @property
    def _is_home(self) -> bool:
        return self._relay.number == HOME

    # Commands of sessions here.

    def step(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
        """The answer of a command, or `WAIT` for it, or `HERE`."""
        name = entry.name
        if "blocking" in entry.flags or "blocking" in entry.categories:
            raise CommandError(BLOCKING)
        if name == "exec":
            return self._execute(session, entry, command)
        if name in EVERYWHERE:
            return self._ask_all(session, entry, command)
        if not is_at_home(entry):
            return HERE
        if self._is_home:
            if name not in CHANGES:
                return HERE
            charge(session, entry, command)
            with self._spared(session):
                reply = session.attempt(entry, command)
            return self._replicate(session, reply, [command])
        if name == "watch":
            return self._watch(session, entry, command[1:])
        call = Call(caller_of(session), [command])
        return self._ask_home(session, call, lambda outcome: Encoded(outcome.blob))

    def check_queued(self, entry: CommandEntry) -> None:
        """Refuse what cannot be asked of all in the midst of a transaction."""
        if entry.name in EVERYWHERE:
            name = entry.name.replace("|", " ").upper()
            raise CommandError(f"ERR {name} is not for transactions where a router has workers")

    def resume(self, session: RespSession) -> Reply:
        """What came of the command of a session that is elsewhere; `HERE` if none is."""
        return self._taken(session) if session.id in self._answers else HERE

    def disconnect(self, session: SessionId) -> None:
        self._answers.pop(session, None)
        self._ending.discard(session)

    def _execute(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
        queued = session.queued
        if queued is None or session.broken:
            return HERE
        changes = [words for each, words in queued if each.name in CHANGES]
        needs_home = bool(session.watched) or any(is_at_home(each) for each, _ in queued)
        if self._is_home:
            if not changes:
                return HERE
            if not may_run(session, entry, command):
                return WAIT
            reply = session.attempt(entry, command)
            # It may have subscribed and published: what it hears comes after the answer, which
            # therefore cannot wait.
            self._tell_changes(session.id, reply, changes, _ignore)
            return reply
        if not needs_home:
            return HERE
        if not may_run(session, entry, command):
            return WAIT
        watched = [(db, key, stamp) for (db, key), stamp in session.watched.items()]
        session.queued, session.watched = None, {}
        call = Call(caller_of(session), [words for _, words in queued], watched)

        def executed(outcome: Outcome) -> Reply:
            take_over(session, outcome.caller)
            if not outcome.is_decided:
                return Encoded(outcome.blob)
            if outcome.is_closing:
                self._end(session)
            session.queued, session.is_executing = queued, True
            blobs = [self._piece(session, blob) for blob in outcome.blobs]
            session.queued, session.is_executing = None, False
            return Decided(blobs)

        return self._ask_home(session, call, executed)

    def _piece(self, session: RespSession, blob: bytes) -> bytes:
        """A piece of a transaction's answer; what this worker has to do for it is done now."""
        found = marked(blob)
        if found is None:
            return blob
        assert session.queued is not None, "in a transaction"
        place, protocol = found
        try:
            return encode(session.attempt(*session.queued[place]), protocol)
        except HeadgateError as failed:
            return encode(session.failure(failed), protocol)

    def _ask_home(
        self, session: RespSession, call: Call, reply_of: Callable[[Outcome], Reply]
    ) -> Reply:
        def done(answers: Answers) -> None:
            if HOME not in answers:
                self._resolve(session, lambda: CommandError(NO_HOME))
            else:
                outcome = msgspec.msgpack.decode(answers[HOME], type=Outcome)
                self._resolve(session, lambda: reply_of(outcome))

        return self._ask(session, self._home_links(), (b"run", msgspec.msgpack.encode(call)), done)

    def _overhear(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> None:
        if self._hub.monitors:
            send_to_monitors(self._hub, session, entry, command)

    def _watch(self, session: RespSession, entry: CommandEntry, keys: list[bytes]) -> Reply:
        if session.queued is not None:
            return HERE  # which refuses it
        limits, db = self._hub.broker.limits, session.db
        self._overhear(session, entry, [b"WATCH", *keys])
        if any(len(key) > limits.name_bytes for key in keys):
            raise LimitReached("name_bytes", limits.name_bytes)
        if len(session.watched) + len(keys) > limits.watched_keys:
            raise LimitReached("watched_keys", limits.watched_keys)

        def done(answers: Answers) -> None:
            if HOME not in answers:
                self._resolve(session, lambda: CommandError(NO_HOME))
                return
            stamps = msgspec.msgpack.decode(answers[HOME], type=list[int])
            for key, stamp in zip(keys, stamps, strict=True):
                session.watched.setdefault((db, key), stamp)
            self._resolve(session, lambda: OK)

        return self._ask(session, self._home_links(), (b"stamps", b"%d" % db, *keys), done)

    def _replicate(self, session: RespSession, reply: Reply, changes: list[list[bytes]]) -> Reply:
        """Have all others do what was done here; then it is answered."""
        if type(reply) is CommandError:
            return reply
        words = _change_words(session.id, changes)
        return self._ask(
            session, self._others(), words, lambda answers: self._resolve(session, lambda: reply)
        )

    def _ask_all(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
        if entry.name == "info":
            self._overhear(session, entry, command)
            words: Sequence[bytes] = (b"info",)
            merge: Callable[[Answers], Reply] = partial(self._merged_info, command[1:])
        else:
            is_kill = entry.name == "client|kill"
            call = Call(caller_of(session), [command])
            words = (b"run" if is_kill else b"list", msgspec.msgpack.encode(call))
            merge = partial(self._killed if is_kill else self._listed, session, entry, command)
        charge(session, entry, command)
        return self._ask(
            session,
            self._others(),
            words,
            lambda found: self._resolve(session, partial(merge, found)),
        )

    def _listed(
        self, session: RespSession, entry: CommandEntry, command: list[bytes], answers: Answers
    ) -> Reply:
        """In the order in which they connected."""
        try:
            rows = self._rows(session, session.attempt(entry, command))
        except HeadgateError as failed:
            return session.failure(failed)
        for content in answers.values():
            rows += msgspec.msgpack.decode(content, type=list[tuple[float, bytes]])
        lines = [text_of(line) for _, line in sorted(rows, key=itemgetter(0))]
        return Verbatim("".join(lines))

    def _rows(self, session: RespSession, reply: Reply) -> list[tuple[float, bytes]]:
        """The lines of a list of sessions here, each with the time since when it is here."""
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

    def _killed(
        self, session: RespSession, entry: CommandEntry, command: list[bytes], answers: Answers
    ) -> Reply:
        """Sessions elsewhere are ended already. Those here are now, as the session may be among
        them, and is answered first."""
        blobs = [msgspec.msgpack.decode(found, type=Outcome).blob for found in answers.values()]
        if any(blob.startswith(b"+") for blob in blobs):
            return OK
        count = sum(int(blob[1:]) for blob in blobs if blob.startswith(b":"))
        here = session.attempt(entry, command)
        return Parts(_added(here, count)) if type(here) is Parts else here

    def _merged_info(self, asked: list[bytes], answers: Answers) -> Reply:
        found = {self._relay.number: fields_of(self._hub)}
        for worker, content in answers.items():
            found[worker] = msgspec.msgpack.decode(content)
        return report(asked, [found[worker] for worker in sorted(found)])

    # Asking.

    def _home_links(self) -> list[LinkSession]:
        links = self._relay.links
        return [links[HOME]] if HOME in links else []

    def _others(self) -> list[LinkSession]:
        return list(self._relay.links.values())

    def _ask(
        self,
        session: RespSession,
        links: list[LinkSession],
        words: Sequence[bytes],
        done: Callable[[Answers], None],
    ) -> Reply:
        self._answers[session.id] = None
        self._relay.questions.ask(links, words, done)
        return self._taken(session)

    def _taken(self, session: RespSession) -> Reply:
        answer = self._answers[session.id]
        if answer is None:
            session.outlet.pause(may_leave=False)
            return WAIT
        del self._answers[session.id]
        if session.id in self._ending:
            self._ending.discard(session.id)
            self._end(session)
        return answer()

    def _end(self, session: RespSession) -> None:
        """Close a session when it is answered."""
        session.is_closing = True
        self._hub.shell.soon(partial(self._close, session))

    def _close(self, session: RespSession) -> None:
        if session.id in self._hub.sessions:
            session.close(REASON)

    def _resolve(self, session: RespSession, answer: Answer) -> None:
        if session.id in self._answers:
            self._answers[session.id] = answer
            self._hub.go_on_soon(session.id)

    # What others ask.

    def _run(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        """Carry out a command, or a transaction, for a session of another worker."""
        call = msgspec.msgpack.decode(words[0], type=Call)
        hub, session = self._hub, stand_in(self._hub, call.caller)
        if call.watched is None:
            [command] = call.commands
            entry = hub.table.find(command)
            changes = [command] if entry.name in CHANGES else []
        else:
            subscribes = any(hub.table.find(each).is_confirmed for each in call.commands)
            queued = [
                (_placed(hub.table.find(each), place, subscribes), each)
                for place, each in enumerate(call.commands)
            ]
            session.queued = queued
            session.watched = {(db, key): stamp for db, key, stamp in call.watched}
            command = [b"EXEC"]
            entry = hub.table.find(command)
            changes = [words for each, words in queued if each.name in CHANGES]
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
            self._tell_changes(session.id, result, changes, lambda answers: reply(content))

        if type(result) is Parts:
            self._make(session, iter(result), [], finish)
        elif type(result) is Decided:
            finish([*map(bytes, result)])
        else:
            finish([encode(result, session.protocol)])

    def _tell_changes(
        self,
        session: SessionId,
        reply: Reply,
        changes: list[list[bytes]],
        done: Callable[[Answers], None],
    ) -> None:
        """Have others do what was done here, unless it was refused."""
        others = self._others() if changes and type(reply) is not CommandError else []
        self._relay.questions.ask(others, _change_words(session, changes), done)

    def _make(
        self,
        session: RespSession,
        parts: Iterator[Reply],
        blobs: list[bytes],
        done: Callable[[list[bytes]], None],
    ) -> None:
        """Make an answer in parts; others get their turn in between."""
        clock = self._hub.shell.clock
        end = clock() + SLICE_SECONDS
        try:
            for part in parts:
                blobs.append(encode(part, session.protocol))
                if clock() > end:
                    self._hub.shell.next_pass(partial(self._make, session, parts, blobs, done))
                    return
        except HeadgateError as failed:
            blobs.append(encode(session.failure(failed), session.protocol))
        done(blobs)

    def _apply(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        """Do what worker 0 did to settings or users. Who asked for it is answered before it is
        closed, if that is what comes of it."""
        hub = self._hub
        changer = stand_in(hub, Caller(0, "", "", "default", 0, 2, b"", "on", 0))
        with self._spared(hub.sessions.get(SessionId(int(words[0])))):
            for command in msgspec.msgpack.decode(words[1], type=list[list[bytes]]):
                changer.attempt(hub.table.find(command), command)
        reply(b"")

    @contextmanager
    def _spared(self, asker: RespSession | None) -> Iterator[None]:
        """A block that may change the users. Who asked for it and lost its own is not closed
        before it is answered."""
        if asker is None or asker.user is None:
            yield
            return
        user, asker.user = asker.user, None
        try:
            yield
        finally:
            asker.user = user
        if self._hub.access.get(user.name.encode()) is not user or not may_keep(user, asker):
            self._ending.add(asker.id)

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
        with suppress(HeadgateError):  # which the worker that asks finds, too
            rows = self._rows(session, session.attempt(self._hub.table.find(command), command))
        reply(msgspec.msgpack.encode(rows))

    def _info(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        reply(msgspec.msgpack.encode(fields_of(self._hub)))

    # Users and settings of a worker that is new.

    def join(self, link: LinkSession) -> None:
        """Worker 0 tells who it is linked to which users there are, and how it is set."""
        if not self._is_home:
            return
        hub = self._hub
        settings = {name: known.read(hub) for name, known in SETTINGS.items()}
        words = (b"adopt", bytes(hub.access), msgspec.msgpack.encode(settings))
        self._relay.questions.ask([link], words, _ignore)

    def _adopt(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        hub = self._hub
        settings = msgspec.msgpack.decode(words[1], type=dict[str, str])
        settings.pop("requirepass", None)  # that of a user
        for name, text in settings.items():
            with suppress(ValueError, KeyError):  # of those that cannot change
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
        """Have worker 0 note that something was denied here."""
        told = msgspec.msgpack.encode(
            (reason, context, object, user, client.encode(errors="replace"), now)
        )
        self._relay.questions.ask(self._home_links(), (b"denied", told), _ignore)

    def _denied(self, words: list[bytes], reply: Callable[[bytes], None]) -> None:
        reason, context, object, user, client, now = msgspec.msgpack.decode(
            words[0], type=tuple[str, str, bytes, str, bytes, float]
        )
        self._hub.denials.add(reason, context, object, user, client.decode(), now)
        reply(b"")


class ForwardedAclLog(AclLog):
    """What was denied by a worker, in the log of worker 0."""

    def __init__(self, placing: Placing) -> None:
        super().__init__()
        self._placing = placing

    def add(
        self, reason: str, context: str, object: bytes, user: str, client: str, now: float
    ) -> None:
        self._placing.deny(reason, context, object, user, client, now)


def _ignore(answers: Answers) -> None:
    """That it was done is all."""


def _change_words(asker: SessionId, changes: list[list[bytes]]) -> tuple[bytes, ...]:
    return b"apply", b"%d" % asker, msgspec.msgpack.encode(changes)


def _added(parts: Parts, more: int) -> Iterator[Reply]:
    for part in parts:
        yield part + more if type(part) is int else part


def _placed(entry: CommandEntry, place: int, subscribes: bool) -> CommandEntry:
    """A command of a transaction, as worker 0 carries it out: what is the affair of the session's
    own worker, as a subscription, only marks its place. Who subscribes may hear what it publishes
    after that, so it is published there, too."""
    is_own = entry.is_confirmed or entry.name in OF_THE_SESSION
    if not is_own and not (subscribes and entry.publishes is not None):
        return entry
    return replace(entry, run=lambda session, args: Encoded(mark(place, session.protocol)))
