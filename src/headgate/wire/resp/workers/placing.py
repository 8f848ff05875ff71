"""Placing a command on a worker: the session's own, worker 0, or all of them.

Keys, settings and users are worker 0's. The others send it single commands or whole transactions; a
change of settings or users is carried out there first, then by all others, and then answered. Each
worker has a copy of users and settings to read, which always equals worker 0's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from headgate.core.model.ids import SessionId
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
from headgate.wire.resp.commands.acl import REASON
from headgate.wire.resp.commands.info import fields_of, report
from headgate.wire.resp.commands.monitor import send_to_monitors
from headgate.wire.resp.commands.table import CommandEntry
from headgate.wire.resp.port import HERE, WAIT
from headgate.wire.resp.publishing import may_run
from headgate.wire.resp.reply_mode import is_confirmation
from headgate.wire.resp.session import RespSession
from headgate.wire.resp.workers.caller import (
    Call,
    Outcome,
    caller_of,
    marked,
    take_over,
)
from headgate.wire.resp.workers.places import (
    CHANGES,
    EVERYWHERE,
    HOME,
    MIXED,
    NO_HOME,
    is_at_home,
)
from headgate.wire.resp.workers.serving_others import change_words, ignore, noted

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.workers.link_session import LinkSession
    from headgate.wire.resp.workers.questions import Answers
    from headgate.wire.resp.workers.relay import Relay

Answer: TypeAlias = Callable[[], Reply]
"""Makes the answer of a command when its session can take it."""


class Placing:
    """The commands of this worker's sessions that are carried out elsewhere, and their answers.
    Owned by the relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._answers: dict[SessionId, Answer | None] = {}
        """By session: the answer of its command elsewhere, once it is there."""
        self._serving = relay.serving

    @property
    def _hub(self) -> Hub:
        return self._relay.hub

    @property
    def _is_home(self) -> bool:
        return self._relay.number == HOME

    # Commands of sessions here.

    def step(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
        """The answer of a command, or `WAIT` for it, or `HERE` to carry it out on this worker."""
        name = entry.name
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
            with self._serving.spared(session):
                reply = session.attempt(entry, command)
            return self._replicate(session, reply, [command])
        if name == "watch":
            return self._watch(session, entry, command[1:])
        call = Call(caller_of(session), [command])
        return self._ask_home(session, call, lambda outcome: Encoded(outcome.blob))

    def check_queued(self, entry: CommandEntry) -> None:
        """Refuse, in a transaction, commands that all workers would have to carry out."""
        if entry.name in EVERYWHERE:
            name = entry.name.replace("|", " ").upper()
            raise CommandError(f"ERR {name} is not for transactions where a router has workers")

    def resume(self, session: RespSession) -> Reply:
        """The outcome of a session's command that is elsewhere; `HERE` if there is none."""
        return self._taken(session) if session.id in self._answers else HERE

    def disconnect(self, session: SessionId) -> None:
        self._answers.pop(session, None)
        self._serving.ending.discard(session)

    def _execute(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
        queued = session.queued
        if queued is None or session.broken:
            return HERE
        needs_home = bool(session.watched) or any(is_at_home(each) for each, _ in queued)
        if self._is_home:
            if not any(each.name in CHANGES for each, _ in queued):
                return HERE
            if not may_run(session, entry, command):
                return WAIT

            def changed(words: list[bytes]) -> None:
                # It may have subscribed and published: what it hears comes after the answer,
                # which therefore cannot wait.
                self._serving.pass_on(session.id, [words], ignore)

            session.queued = [(noted(each, changed), words) for each, words in queued]
            return session.attempt(entry, command)
        if not needs_home:
            return HERE
        if any(each.takes_turns for each, _ in queued):
            session.queued, session.watched = None, {}
            raise CommandError(MIXED)
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
        """A piece of a transaction's answer; this worker's own commands are carried out now."""
        found = marked(blob)
        if found is None:
            return blob
        assert session.queued is not None, "in a transaction"
        entry, command = session.queued[found.place]
        reply = session.attempt(entry, command)
        if found.is_silent and not is_confirmation(entry, reply):
            return b""
        try:
            return encode(reply, found.protocol)
        except HeadgateError as failed:
            return encode(session.failure(failed), found.protocol)

    def _ask_home(
        self, session: RespSession, call: Call, reply_of: Callable[[Outcome], Reply]
    ) -> Reply:
        def done(answers: Answers) -> None:
            if HOME not in answers:
                self._resolve(session, lambda: CommandError(NO_HOME))
            else:
                outcome = msgspec.msgpack.decode(answers[HOME], type=Outcome)
                self._resolve(session, lambda: reply_of(outcome))

        return self._ask(
            session, self._relay.home_links(), (b"run", msgspec.msgpack.encode(call)), done
        )

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

        return self._ask(session, self._relay.home_links(), (b"stamps", b"%d" % db, *keys), done)

    def _replicate(self, session: RespSession, reply: Reply, changes: list[list[bytes]]) -> Reply:
        """Repeat a change made here on all other workers, then answer."""
        if type(reply) is CommandError:
            return reply
        words = change_words(session.id, changes)
        return self._ask(
            session,
            self._relay.others(),
            words,
            lambda answers: self._resolve(session, lambda: reply),
        )

    def _ask_all(self, session: RespSession, entry: CommandEntry, command: list[bytes]) -> Reply:
        if entry.name == "info":
            self._overhear(session, entry, command)
            words: Sequence[bytes] = (b"info",)
            merge: Callable[[Answers], Reply] = partial(self._merged_info, command[1:])
        else:
            call = Call(caller_of(session), [command])
            is_list = entry.name == "client|list"
            words = (b"list" if is_list else b"run", msgspec.msgpack.encode(call))
            merges = {"client|list": self._listed, "client|kill": self._killed}
            merge = partial(merges.get(entry.name, self._summed), session, entry, command)
        charge(session, entry, command)
        return self._ask(
            session,
            self._relay.others(),
            words,
            lambda found: self._resolve(session, partial(merge, found)),
        )

    def _listed(
        self, session: RespSession, entry: CommandEntry, command: list[bytes], answers: Answers
    ) -> Reply:
        """The lines of all workers' sessions, in the order in which they connected."""
        try:
            rows = self._serving.rows_of(session, session.attempt(entry, command))
        except HeadgateError as failed:
            return session.failure(failed)
        for content in answers.values():
            rows += msgspec.msgpack.decode(content, type=list[tuple[float, bytes]])
        lines = [text_of(line) for _, line in sorted(rows, key=itemgetter(0))]
        return Verbatim("".join(lines))

    def _killed(
        self, session: RespSession, entry: CommandEntry, command: list[bytes], answers: Answers
    ) -> Reply:
        """The number of sessions killed. Sessions elsewhere are closed already. Sessions here are
        closed now, since the asking one may be among them and is answered first."""
        blobs = [msgspec.msgpack.decode(found, type=Outcome).blob for found in answers.values()]
        if any(blob.startswith(b"+") for blob in blobs):
            return OK
        count = sum(int(blob[1:]) for blob in blobs if blob.startswith(b":"))
        here = session.attempt(entry, command)
        return Parts(_added(here, count)) if type(here) is Parts else here

    def _summed(
        self, session: RespSession, entry: CommandEntry, command: list[bytes], answers: Answers
    ) -> Reply:
        """The sum of the counts here and elsewhere."""
        here = session.attempt(entry, command)
        blobs = [msgspec.msgpack.decode(found, type=Outcome).blob for found in answers.values()]
        count = sum(int(blob[1:]) for blob in blobs if blob.startswith(b":"))
        return here + count if type(here) is int else here

    def _merged_info(self, asked: list[bytes], answers: Answers) -> Reply:
        found = {self._relay.number: fields_of(self._hub)}
        for worker, content in answers.items():
            found[worker] = msgspec.msgpack.decode(content)
        return report(asked, [found[worker] for worker in sorted(found)])

    # Questions to other workers.

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
        if session.id in self._serving.ending:
            self._serving.ending.discard(session.id)
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


def _added(parts: Parts, more: int) -> Iterator[Reply]:
    for part in parts:
        yield part + more if type(part) is int else part
