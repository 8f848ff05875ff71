"""Sinks over the admin port: what Spark staged lands in a queue, once, or goes out on channels.

Commits are carried out one after another: each is a turn of its own size, and whether a batch has
landed before is then known before it is read. One that may land in pieces takes as many turns as it
has pieces; how many rows of it have landed is remembered as if its pieces were the batches of a
sink of their own, SINK/BATCH. The promise: docs/design/sink.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Concatenate, ParamSpec

import msgspec
from starlette.exceptions import HTTPException

from headgate.core.channels.audience import Kind
from headgate.core.commands import Command, ForgetSink, Land, RememberBatch
from headgate.core.effects import Effect, Failed, ref_of
from headgate.core.facts import PublisherWaited
from headgate.core.model.ids import MessageId, QueueId, Ref, SessionId
from headgate.core.model.limits import MiB
from headgate.core.model.message import NO_PROPERTIES, Message
from headgate.core.shared.sinks import Sinks
from headgate.errors import BadMessage, HeadgateError, LimitReached, QuotaReached, Refused
from headgate.server.admin.pages import Table
from headgate.server.admin.staging import NAME, NUMBER, Kept, Place, Row, Staging, read_away
from headgate.server.router import Router
from headgate.wire.resp.hub import Hub

P = ParamSpec("P")

QUEUE = re.compile(r"bmq://([^/?\s]{1,255})/[^/?\s]{1,255}")

STAGED_SECONDS = 86_400.0
"""Files older than this are removed: whoever staged them has given up."""

SWEEP_SECONDS = 3600.0
"""How often that is looked for."""

BLOCKED_SECONDS = 20.0
"""How long a commit waits for a session that hears a channel and does not read."""

BLOCKED_PAUSE = 0.02

COMMIT_BYTES = 4 * MiB
"""The body of a commit, which names the attempts that won."""

STATUS = {
    "sink_messages": 413,
    "sink_bytes": 413,
    "body_bytes": 413,
    "message_properties": 413,
    "properties_bytes": 413,
    "name_bytes": 413,
    "outbox_bytes": 429,
    "inbox_commands": 429,
    "inbox_bytes": 429,
    "sinks": 507,
    "sink_staged_bytes": 507,
    "staged_bytes": 507,
}
"""The status of a request that reached a limit; 409 for others."""

SMALLER = (
    "send fewer rows per batch (maxFacts or maxBytes of the headgate source, maxFilesPerTrigger of"
    " files, several writes of a DataFrame), or let it land in pieces (inPieces of the sink)"
)
GIVE_UP = "abort batches that will not be committed"
ADVICE = {
    "sink_messages": SMALLER,
    "sink_bytes": SMALLER,
    "outbox_bytes": "the journal does not keep up; wait",
    "sinks": "name batch writes with the option job, and forget sinks with DELETE /sinks/SINK",
    "sink_staged_bytes": GIVE_UP,
    "staged_bytes": GIVE_UP,
}


class Commit(msgspec.Struct, forbid_unknown_fields=True):
    """The attempts that won, and where their rows go. A channel that is null is each row's own."""

    parts: list[tuple[int, int]]
    queue: str | None = None
    channel: str | msgspec.UnsetType | None = msgspec.UNSET
    in_pieces: bool = False
    """Whether it may land in several turns, if it is too large for one."""


_decode_commit = msgspec.json.Decoder(Commit).decode


def checked(sink: str, *numbers: str) -> tuple[str, list[int]]:
    """The name of a sink and the numbers that follow it in a path."""
    if not NAME.fullmatch(sink):
        raise HTTPException(400, "a sink is named by 1 to 128 letters, digits, dots, - and _")
    if not all(NUMBER.fullmatch(number) for number in numbers):
        raise HTTPException(400, "batch, partition and attempt are whole numbers")
    return sink, [int(number) for number in numbers]


def _landing(sink: str, batch: int) -> str:
    """The name, which no sink has, under which it is remembered how many rows of a batch have
    landed."""
    return f"{sink}/{batch}"


class SinkAdmin:
    """Sinks, as the admin port asks about them."""

    def __init__(
        self, router: Router, directory: Path, hub: Callable[[], Hub | None] = lambda: None
    ) -> None:
        self._router = router
        self._hub = hub
        self._staging = Staging(directory, router.limits, router.clock)
        self._is_open = False
        self._one_by_one = asyncio.Lock()
        self._session: SessionId | None = None
        self._refs = count(1)
        self._waiting: dict[Ref, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Answer while the router runs."""
        await asyncio.to_thread(self._staging.open)
        sweeping = asyncio.create_task(self._sweep(), name="sinks")
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False
            sweeping.cancel()

    # What is asked.

    async def stage(
        self, place: Place, chunks: AsyncIterator[bytes], in_pieces: bool = False
    ) -> dict[str, object]:
        """Keep an attempt of a partition until its batch is committed."""
        limits = self._router.limits
        most = limits.sink_staged_bytes if in_pieces else limits.sink_bytes
        is_landing = _landing(place.sink, place.batch) in self._sinks.records
        if is_landing or self._sinks.has(place.sink, place.batch):
            await read_away(chunks, most)
            return {"bytes": 0, "repeated": True}
        try:
            with self._router.recording_limits(self._id()):
                return {"bytes": await self._staging.write(place, chunks, most), "repeated": False}
        except LimitReached as error:
            await read_away(chunks, most)
            raise _refusal(error) from None
        except OSError as error:
            raise HTTPException(507, f"the rows cannot be staged: {error.strerror}") from None

    async def commit(self, sink: str, batch: int, body: bytes) -> dict[str, object]:
        """Let a batch land, unless it did before."""
        try:
            wanted = _decode_commit(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise HTTPException(400, f"not a commit: {error}") from None
        if (wanted.queue is None) == (wanted.channel is msgspec.UNSET):
            raise HTTPException(400, "a commit names a queue or a channel")
        if len(dict(wanted.parts)) < len(wanted.parts):
            raise HTTPException(400, "a commit names one attempt of each partition")
        async with self._one_by_one:
            is_repeated = self._sinks.has(sink, batch)
            messages = 0
            if not is_repeated:
                try:
                    messages = await self._commit(sink, batch, wanted)
                except HeadgateError as error:
                    raise _refusal(error) from error
            await self._let_go(sink, batch)
            await self._staging.drop(lambda place, _: place.sink == sink and place.batch <= batch)
        return {"messages": messages, "repeated": is_repeated}

    async def abort(self, sink: str, batch: int) -> dict[str, object]:
        """Drop what was staged of a batch. One that has landed stays landed, and one of which a
        piece has landed goes on when it is committed again."""
        self._check_open()
        async with self._one_by_one:
            if _landing(sink, batch) not in self._sinks.records:
                await self._staging.let_go(sink, batch)
            await self._staging.drop(lambda place, _: place[:2] == (sink, batch))
        return {"aborted": True}

    async def forget(self, sink: str) -> dict[str, object]:
        """Forget the last batch of a sink, and what it staged."""
        is_known = sink in self._sinks.records or sink in self._staging.bytes
        async with self._one_by_one:
            await self._ask(ForgetSink, sink)
            for name in [name for name in self._sinks.records if name.startswith(f"{sink}/")]:
                await self._ask(ForgetSink, name)
            for _, batch in [key for key in self._staging.kept if key[0] == sink]:
                await self._staging.let_go(sink, batch)
            await self._staging.drop(lambda place, _: place.sink == sink)
        return {"forgotten": is_known}

    def listing(self) -> Table[str]:
        records, staged = self._sinks.records, self._staging.bytes
        fields: dict[str, Callable[[str], object]] = {
            "sink": lambda sink: sink,
            "batch": lambda sink: records[sink].batch if sink in records else None,
            "at": lambda sink: records[sink].at if sink in records else None,
            "staged_bytes": lambda sink: staged[sink],
        }
        return Table(list({*records, *staged}), fields, order="sink")

    # Inside.

    def _check_open(self) -> None:
        if not self._is_open:
            raise HTTPException(503, "the router is starting or stopping; ask again")

    @property
    def _sinks(self) -> Sinks:
        self._check_open()
        return self._router.broker.shard.shared.sinks

    async def _commit(self, sink: str, batch: int, wanted: Commit) -> int:
        landing = _landing(sink, batch)
        landed = self._sinks.records.get(landing)
        done = 0
        if landed is not None:
            wanted, done = self._kept(sink, batch, landed.batch), landed.batch
        with self._router.recording_limits(self._id()):
            self._sinks.check_room(sink)
        places = [Place(sink, batch, *part) for part in wanted.parts]
        async for rows, is_last in self._read(places, done, wanted):
            if wanted.queue is not None and not is_last and not done:
                kept = Kept(wanted.parts, wanted.queue)
                await asyncio.to_thread(self._staging.keep, sink, batch, kept)
            done += len(rows)
            if wanted.queue is None:
                with self._router.recording_limits(self._id()):
                    await self._publish(rows, wanted.channel)
                if is_last:
                    await self._ask(RememberBatch, sink, batch, done)
            elif is_last:
                await self._land(sink, batch, wanted.queue, rows)
            else:
                await self._land(landing, done, wanted.queue, rows)
        return done

    async def _read(
        self, places: Sequence[Place], after: int, wanted: Commit
    ) -> AsyncIterator[tuple[list[Row], bool]]:
        """The rows of a commit, in the pieces that land together, and whether one is the last."""
        with self._router.recording_limits(self._id()):
            if not wanted.in_pieces:
                yield await asyncio.to_thread(self._staging.read, places), True
                return
            pieces = self._staging.pieces(places, after, *self._bounds(wanted.queue))
            piece = await asyncio.to_thread(next, pieces, None)
            while piece is not None:
                following = await asyncio.to_thread(next, pieces, None)
                yield piece, following is None
                piece = following

    def _bounds(self, queue: str | None) -> tuple[int, int]:
        """How many rows and bytes a piece has at most: what one turn takes, and what the queue has
        room for when it is empty."""
        limits, match = self._router.limits, QUEUE.fullmatch(queue or "")
        domain = self._router.domain(match[1]) if match is not None else None
        messages, size = [limits.sink_messages], [limits.sink_bytes]
        if domain is not None:
            messages += [each for each in (domain.max_messages, domain.domain_max_messages) if each]
            size += [each for each in (domain.max_bytes, domain.domain_max_bytes) if each]
        return min(messages), min(size)

    def _kept(self, sink: str, batch: int, rows: int) -> Commit:
        """The rest of a batch of which so many rows have landed, from the rows staged then,
        whatever is staged now."""
        kept = self._staging.kept.get((sink, batch))
        if kept is None:
            raise HTTPException(
                409,
                f"{rows} rows of batch {batch} have landed, and what was staged of the others is"
                f" gone: forget the sink (DELETE /sinks/{sink}), and the whole batch is sent again",
            )
        return Commit(kept.parts, kept.queue, in_pieces=True)

    async def _let_go(self, sink: str, batch: int) -> None:
        """Forget the pieces of batches that have landed, up to this one."""
        for _, landed in [key for key in self._staging.kept if key[0] == sink and key[1] <= batch]:
            await self._ask(ForgetSink, _landing(sink, landed))
            await self._staging.let_go(sink, landed)

    async def _land(self, sink: str, batch: int, queue: str, rows: Sequence[Row]) -> None:
        match = QUEUE.fullmatch(queue)
        if match is None:
            raise HTTPException(400, "a queue is bmq://DOMAIN/NAME")
        now = self._router.clock()
        messages = tuple(
            Message(MessageId(row.id), row.body, now, row.properties or NO_PROPERTIES)
            for row in rows
        )
        try:
            await self._ask(Land, sink, batch, QueueId(queue.encode()), match[1], messages)
        except QuotaReached as error:
            raise _no_room(error, messages, match[1]) from None

    async def _publish(self, rows: Sequence[Row], channel: object) -> None:
        """As a session would, in pieces, each after those who hear it have room."""
        hub, limits = self._hub(), self._router.limits
        channels = self._router.broker.channels
        if hub is not None and hub.cluster is not None:
            raise HTTPException(409, "channels of a cluster are sharded; write to a queue")
        given = channel.encode() if isinstance(channel, str) else None
        pairs = []
        for row in rows:
            name = row.channel if given is None else given
            if name is None:
                raise HTTPException(400, "a row has no channel, and the commit names none")
            if len(name) > limits.name_bytes:
                raise LimitReached("name_bytes", limits.name_bytes)
            if len(row.body) > limits.body_bytes:
                raise LimitReached("body_bytes", limits.body_bytes)
            pairs.append((name, row.body))
        for start in range(0, len(pairs), limits.publish_frames):
            for name, text in pairs[start : start + limits.publish_frames]:
                if hub is not None and hub.budget.stuck:
                    await self._wait_for_room(hub, name)
                channels.publish_one(Kind.EXACT, name, text)
            if hub is not None:
                hub.flush()
            else:
                channels.take()  # without a wire nobody hears it
            await asyncio.sleep(0)

    async def _wait_for_room(self, hub: Hub, channel: bytes) -> None:
        """Wait while a session that hears a channel has no room, as any publisher does."""
        hub.flush()  # what is not charged yet would not count
        publisher, waited = self._id(), 0.0
        while (blocker := hub.blocker(Kind.EXACT, channel)) is not None:
            if not waited:
                fact = PublisherWaited(self._router.clock(), publisher, blocker)
                self._router.announce([fact])
            if waited >= BLOCKED_SECONDS:
                name = channel.decode(errors="backslashreplace")
                raise HTTPException(
                    429, f"a session that hears the channel {name} does not read; end it"
                )
            await asyncio.sleep(BLOCKED_PAUSE)
            waited += BLOCKED_PAUSE

    async def _ask(
        self,
        kind: Callable[Concatenate[SessionId, Ref, P], Command],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Have a command carried out, in the session of all sinks."""
        session, ref = self._id(), next(self._refs)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[ref] = answer
        try:
            self._router.submit(session, [kind(session, ref, *args, **kwargs)])
            await answer
        finally:
            del self._waiting[ref]

    def _id(self) -> SessionId:
        if self._session is None:
            self._session = self._router.connect("sink", "sinks", self._receive)
        return self._session

    def _receive(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            answer = self._waiting.get(ref_of(effect))
            if answer is None or answer.done():
                continue
            if isinstance(effect, Failed):
                answer.set_exception(effect.error)
            else:
                answer.set_result(None)

    async def _sweep(self) -> None:
        def is_old(place: Place, at: float) -> bool:
            return self._router.sure() - at > STAGED_SECONDS

        while True:
            async with self._one_by_one:
                for sink, batch in list(self._staging.kept):
                    if _landing(sink, batch) not in self._sinks.records:  # nobody came back
                        await self._staging.let_go(sink, batch)
            await self._staging.drop(is_old)
            await asyncio.sleep(SWEEP_SECONDS)


def _refusal(error: HeadgateError) -> HTTPException:
    if isinstance(error, LimitReached):
        advice = ADVICE.get(error.name, f"raise {error.name}, or ask for less")
        return HTTPException(STATUS.get(error.name, 409), f"{error}: {advice}")
    if isinstance(error, Refused):
        return HTTPException(400 if isinstance(error, BadMessage) else 409, str(error))
    return HTTPException(503, str(error))


def _no_room(error: QuotaReached, messages: Sequence[Message], domain: str) -> HTTPException:
    size = len(messages) if error.unit == "messages" else sum(m.size for m in messages)
    if size > error.limit:
        return HTTPException(
            413,
            f"the batch has {size} {error.unit}, the {error.scope} takes {error.limit}: {SMALLER}",
        )
    key = f"{'domain_' if error.scope == 'domain' else ''}max_{error.unit}"
    return HTTPException(
        429, f"{error}: wait until some are confirmed, or raise {key} of the domain {domain}"
    )
