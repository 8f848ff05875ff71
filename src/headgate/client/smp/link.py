"""A link: one connection of a client with a router, from the greetings to its end.

A reading task opens the blocks and sorts their contents. Answers go to their callers; everything
else goes to the link's handler, in its place. See docs/design/smp-client.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from headgate.client.smp.connecting import connect_host
from headgate.client.smp.greeting import Stream
from headgate.client.smp.handler import LinkHandler, Unexpected
from headgate.client.smp.outgoing import NotSent, OutgoingBlock, outgoing_blocks
from headgate.client.smp.pulse import LinkPulse
from headgate.client.smp.recipient import Request
from headgate.client.smp.requests import begins_subscription, is_answer, ping
from headgate.client.smp.service import Service
from headgate.client.smp.session_keys import SessionKeys
from headgate.client.smp.timing import BACKGROUND, Timing
from headgate.client.smp.waiting import Batch, Each, Outcome, SentBlock, WaitingRow, WaitingTable
from headgate.errors import (
    HeadgateError,
    Malformed,
    NotConnected,
    ProtocolError,
    RequestRefused,
    TimedOut,
    UnexpectedReply,
)
from headgate.wire.smp.codec import replies as r
from headgate.wire.smp.codec.blocks import unpack
from headgate.wire.smp.codec.router_address import RouterAddress
from headgate.wire.smp.codec.transmissions import Transmission, parse_reply
from headgate.wire.smp.handshake import VERSIONS, Role, Versions

EVENTS: Final = (r.Msg, r.NMsg, r.SmpEnd, r.Deld, r.Ends, r.Alls, r.Err)
"""Events that a router may send."""

ELSEWHERE: Final = (r.Ids, r.Err)
"""Answers that may name another entity: a queue has no id before it is made, and an error may name
none."""


class Link:
    """One connection with a router.

    Its maker owns it, sends requests over it, and closes it. A lost link does not come back: its
    handler is called once, all callers get `NotConnected`, and another link has to be made. Every
    coroutine may be cancelled, which leaves the link as it was.
    """

    def __init__(
        self,
        stream: Stream,
        keys: SessionKeys,
        handler: LinkHandler,
        *,
        timing: Timing = BACKGROUND,
        slot: int = 0,
    ) -> None:
        self.slot = slot
        """The number that its owner gave it; with the session id it is unique."""
        self.is_open = True
        self.reason = ""
        """The reason why it is not open any more."""
        self.timing = timing
        self._stream = stream
        self._keys = keys
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._waiting = WaitingTable(timing.late_seconds, timing.late_max)
        self._subscribing: list[SentBlock] = []
        """Unanswered blocks of SUBs, in order."""
        self._turn = asyncio.Lock()
        """A lock for the next block of SUBs."""
        self._room = asyncio.Event()
        """Set while another block of SUBs may be sent."""
        self._room.set()
        self._pulse = LinkPulse(self._loop, timing, self._ping, self._end)
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        address: RouterAddress,
        handler: LinkHandler,
        *,
        service: Service | None = None,
        role: Role = Role.MESSAGING,
        versions: Versions = VERSIONS,
        timing: Timing = BACKGROUND,
        slot: int = 0,
    ) -> Self:
        """Connect with the first host of the address that proves to be the router.

        Raises `NotThisRouter`, `NoCommonVersion`, `HostNotFound`, `NotConnected`, `TimedOut`, or
        `RequestRefused` if the router refuses the service; `kind_of_failure` classifies them. The
        handler is not called before the awaiting caller has gone on.
        """
        stream, keys = await connect_host(
            address, service=service, role=role, versions=versions, seconds=timing.connect_seconds
        )
        link = cls(stream, keys, handler, timing=timing, slot=slot)
        link.start()
        return link

    def start(self) -> None:
        """Begin to read."""
        self._reading = self._loop.create_task(self._read(), name="smp link")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        await self.wait_closed()

    @property
    def session_id(self) -> bytes:
        return self._keys.session_id

    @property
    def version(self) -> int:
        return self._keys.version

    @property
    def service_id(self) -> bytes | None:
        """The router's id of the service that this client showed, if it did."""
        return self._keys.service_id

    # Requests.

    async def ask(self, request: Request, *, seconds: float | None = None) -> r.Reply:
        """The answer to a request. Raises `RequestRefused` with the router's error, `TimedOut`,
        `NotConnected`, `UnexpectedReply`, or a `Refused` of our own if the request cannot be
        sent."""
        (outcome,) = await self.ask_all([request], seconds=seconds)
        if isinstance(outcome, HeadgateError):
            raise outcome
        return outcome

    async def ask_all(
        self,
        requests: Sequence[Request],
        *,
        seconds: float | None = None,
        each: Each | None = None,
    ) -> list[Outcome]:
        """The outcomes of requests, in order: an answer, or the error that `ask` would raise. They
        are sent in as few blocks as possible.

        `seconds` count from the writing of a block. `each` is called with every outcome as it
        comes, by the reader like the handler, so that answers and events keep their order. A
        cancelled caller leaves; written requests stay sent.
        """
        batch = Batch(len(requests), self._loop.create_future(), each)
        if not requests:
            return []
        if seconds is None:
            seconds = self.timing.answer_seconds
        written: list[SentBlock] = []
        try:
            for block in outgoing_blocks(self._keys, requests):
                if isinstance(block, NotSent):
                    self._settle(batch, block.place, block.error)
                    continue
                if written:
                    # Signing a block takes milliseconds: other tasks run in between.
                    await asyncio.sleep(0)
                if not await self._send(block, batch, seconds, written):
                    break
            if batch.left:
                if not self.is_open:
                    self._settle_rest(batch)
                await batch.over
        finally:
            # S004-26: cancelling changes nothing but the wait. If the writing of a block was not
            # awaited, its time runs from here.
            batch.is_left = True
            for sent in written:
                if sent.since is None:
                    self._start_clock(sent)
        return batch.results()

    async def _send(
        self, block: OutgoingBlock, batch: Batch, seconds: float, written: list[SentBlock]
    ) -> bool:
        """Write a block when it may be written, and wait until it is sent. False if the link is
        over."""
        if block.is_subscribing:
            async with self._turn:
                await self._room.wait()
                sent = self._put(block, batch, seconds)
        else:
            sent = self._put(block, batch, seconds)
        if sent is None:
            return False
        written.append(sent)
        try:
            await self._stream.drain()
        except NotConnected as error:
            self._end(str(error))
            return False
        # The time of a request begins when it was sent, not when it was queued.
        self._start_clock(sent)
        return True

    def _put(self, block: OutgoingBlock, batch: Batch, seconds: float) -> SentBlock | None:
        """Expect the answers of a block, and pass it to the transport."""
        if not self.is_open:
            return None
        sent = SentBlock(block.correlations, block.is_subscribing, seconds)
        for outgoing in block.requests:
            row = WaitingRow(outgoing.request, batch, outgoing.place, sent)
            self._waiting.add(outgoing.correlation, row)
        if sent.is_subscribing:
            self._subscribing.append(sent)
            if len(self._subscribing) >= self.timing.subscribing_blocks_max:
                self._room.clear()
        self._stream.write(self._keys.cipher.seal(block.payload))
        if not self._pulse.is_started and any(
            begins_subscription(outgoing.request.command) for outgoing in block.requests
        ):
            self._pulse.start()
        return sent

    # Time.

    def _start_clock(self, block: SentBlock) -> None:
        if self.is_open and block.answers_left:
            block.since = self._loop.time()
            block.timer = self._loop.call_later(block.seconds, self._look, block)

    def _look(self, block: SentBlock) -> None:
        """Expire a block, unless its time was extended."""
        assert block.since is not None, "its clock was started"
        now, due = self._loop.time(), block.since + block.seconds
        if now < due:
            block.timer = self._loop.call_at(due, self._look, block)
            return
        block.timer = None
        self._dismiss(block)
        for row in self._waiting.expire(block, now):
            self._settle(row.batch, row.place, TimedOut(_name(row.request), block.seconds))

    def _answered(self, block: SentBlock, now: float) -> None:
        """Note an answer to one more request of a block."""
        block.answers_left -= 1
        if block.answers_left:
            return
        if block.timer is not None:
            block.timer.cancel()
        if block in self._subscribing:
            # A router answers in order, so the time of later blocks begins now: the timeout limits
            # its silence, not the wait behind other blocks.
            for behind in self._subscribing[self._subscribing.index(block) + 1 :]:
                if behind.since is not None:
                    behind.since = now
        self._dismiss(block)

    def _dismiss(self, block: SentBlock) -> None:
        if block in self._subscribing:
            self._subscribing.remove(block)
            self._room.set()

    def _ping(self) -> None:
        batch = Batch(1, self._loop.create_future(), self._pulse.answered)
        for block in outgoing_blocks(self._keys, [ping()]):
            assert isinstance(block, OutgoingBlock), "a PING can be sent"
            sent = self._put(block, batch, self.timing.answer_seconds)
            assert sent is not None, "a link that is over has no pulse"
            self._start_clock(sent)

    # Reading.

    async def _read(self) -> None:
        try:
            while self.is_open:
                block = await self._block()
                self._pulse.heard()
                self._take(unpack(self._keys.cipher.open(block)))
        except NotConnected as error:
            self._end(str(error))
        except ProtocolError as error:
            self._end(f"the router broke the protocol: {error}")
        except BaseException as error:
            self._end(f"reading ended: {error!r}")
            raise

    async def _block(self) -> bytes:
        return await self._stream.block()

    def _take(self, transmissions: Iterable[bytes]) -> None:
        """Pass on the transmissions of a block, in order. An unreadable one affects no other."""
        now = self._pulse.heard_at
        for data in transmissions:
            if not self.is_open:
                return
            try:
                transmission = parse_reply(data)
            except Malformed as error:
                self._report(Unexpected(str(error)))
                continue
            correlation, entity = transmission.correlation, transmission.entity
            reply: r.Reply | None = None
            why = ""
            try:
                reply = self._parse(transmission)
            except Malformed as error:
                why = str(error)
            if not correlation:
                # S000-65: it answers no request, so it is an event.
                if reply is None or not isinstance(reply, EVENTS):
                    why = why or "an answer to nobody"
                    self._report(Unexpected(why, correlation, entity, reply))
                else:
                    self._call(self._handler.received, self, entity, reply)
                continue
            found = self._waiting.take(correlation, now)
            if found is None:
                # S000-66: it is reported, and the session goes on.
                why = why or "an answer to what was not asked"
                self._report(Unexpected(why, correlation, entity, reply))
                continue
            row, is_late = found
            self._answered(row.block, now)
            if is_late:
                # S000-67: only if it names the request's entity.
                if reply is not None and (entity == row.request.entity or isinstance(reply, r.Ids)):
                    self._call(self._handler.answered_late, self, row.request, reply)
                continue
            # S000-64: to its caller.
            self._settle(row.batch, row.place, _outcome(row.request, entity, reply, why))

    def _parse(self, transmission: Transmission) -> r.Reply:
        reply = r.parse_reply_command(transmission.command, self._keys.version)
        if not r.has_right_entity(reply, transmission.entity):
            raise Malformed(f"{reply.tag.decode()} about {transmission.entity.hex() or 'nothing'}")
        return reply

    def _report(self, report: Unexpected) -> None:
        self._call(self._handler.unexpected, self, report)

    def _settle(self, batch: Batch, place: int, outcome: Outcome) -> None:
        self._call(batch.settle, place, outcome)

    def _settle_rest(self, batch: Batch) -> None:
        for place, outcome in enumerate(batch.outcomes):
            if outcome is None:
                self._settle(batch, place, NotConnected(self.reason))

    def _call(self, call: Callable[..., None], *arguments: object) -> None:
        """Call the handler. If it raises the link ends: its state may be wrong by now."""
        try:
            call(*arguments)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "the handler of an SMP link failed", "exception": error}
            )
            self._end(f"the handler of the link failed: {error!r}")

    # The end.

    def close(self) -> None:
        """Close at once. Unwritten data is not sent."""
        self._end("closed on this side")

    async def wait_closed(self) -> None:
        """Wait until the link is over and its connection closed."""
        if self._reading is not None:
            await asyncio.wait([self._reading])
        await self._stream.wait_closed()

    def _end(self, reason: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self.reason = reason
        self._pulse.stop()
        self._stream.abort()
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        for row in self._waiting.clear():
            if row.block.timer is not None:
                row.block.timer.cancel()
            self._settle(row.batch, row.place, NotConnected(reason))
        self._subscribing.clear()
        self._room.set()
        self._call(self._handler.lost, self, reason)


def _outcome(request: Request, entity: bytes, reply: r.Reply | None, why: str) -> Outcome:
    """The outcome of a request, given its answer."""
    if reply is None:
        return UnexpectedReply(f"{_name(request)}: {why}")
    if entity != request.entity and not isinstance(reply, ELSEWHERE):
        return UnexpectedReply(f"{_name(request)} was answered about something else")
    if not is_answer(request.command, reply):
        return UnexpectedReply(f"{reply.tag.decode()} is no answer to {_name(request)}")
    if isinstance(reply, r.Err):
        return RequestRefused(reply.text)
    return reply


def _name(request: Request) -> str:
    command = request.command
    return "a request" if isinstance(command, bytes) else command.tag.decode()
