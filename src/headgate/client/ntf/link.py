"""One connection of an app with a notification server."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import field
from types import TracebackType
from typing import Final, Self, TypeAlias

from headgate.client.ntf.greeting import NtfSession, greet_ntf, ntf_context, read_block
from headgate.client.smp.greeting import Stream
from headgate.client.smp.timing import PERSON_WAITS, Timing
from headgate.core.model.value import value
from headgate.crypto.keys import SigningKey
from headgate.errors import (
    HeadgateError,
    NoCommonVersion,
    NotConnected,
    NotThisRouter,
    ProtocolError,
    RequestRefused,
    TimedOut,
    UnexpectedReply,
)
from headgate.wire.ntf.address import NtfAddress
from headgate.wire.ntf.commands import NtfCommand, encode_command
from headgate.wire.ntf.replies import NtfReply, has_right_entity
from headgate.wire.ntf.transmissions import (
    NtfAnswer,
    encode_request,
    pack_blocks,
    read_answers,
    signed_bytes,
)
from headgate.wire.smp.codec.replies import Err

CORRELATION_BYTES: Final = 24
TOGETHER_MAX: Final = 16
"""Requests sent before their answers are awaited."""


@value
class AppRequest:
    """One command, its entity, and the key that signs it."""

    command: NtfCommand
    key: SigningKey | None = field(default=None, repr=False)
    entity: bytes = b""


NtfOutcome: TypeAlias = NtfReply | HeadgateError


class NtfLink:
    """One connection. Its maker owns it, makes one call at a time, and closes it. After a failure,
    and after a cancelled call, it is closed for good."""

    def __init__(self, stream: Stream, session: NtfSession, timing: Timing) -> None:
        self._stream = stream
        self._session = session
        self._timing = timing
        self._asking = asyncio.Lock()
        self._failure: HeadgateError | None = None

    @classmethod
    async def connect(cls, address: NtfAddress, *, timing: Timing = PERSON_WAITS) -> Self:
        """Connect with the first host of the address that proves to be the server. Raises
        `NotThisRouter`, `NoCommonVersion`, `NotConnected` or `TimedOut`."""
        failure: HeadgateError | None = None
        for host in address.hosts:
            stream: Stream | None = None
            try:
                async with asyncio.timeout(timing.connect_seconds):
                    stream = await Stream.open(
                        host, address.port, ntf_context(), who="notification server"
                    )
                    session = await greet_ntf(stream, address.key_hash)
            except BaseException as error:
                if stream is not None:
                    stream.abort()
                match error:
                    case NotConnected() | NotThisRouter() | NoCommonVersion():
                        failure = error
                    case TimeoutError():
                        what = f"connecting with {host}:{address.port}"
                        failure = TimedOut(what, timing.connect_seconds)
                    case _:
                        raise
            else:
                return cls(stream, session, timing)
        assert failure is not None, "an address has a host"
        raise failure

    async def ask(self, request: AppRequest) -> NtfReply:
        """The answer to a request. Raises `RequestRefused` with the server's error, `TimedOut`,
        `NotConnected`, or `LargeMessage` for a request that does not fit into a block."""
        (outcome,) = await self.ask_all([request])
        if isinstance(outcome, HeadgateError):
            raise outcome
        return outcome

    async def ask_all(self, requests: Sequence[AppRequest]) -> list[NtfOutcome]:
        """The outcomes of requests, in order: an answer, or the error that `ask` would raise. One
        that does not fit into a block raises for all, and nothing is sent."""
        outcomes: list[NtfOutcome] = []
        async with self._asking:
            for start in range(0, len(requests), TOGETHER_MAX):
                outcomes += await self._ask_some(requests[start : start + TOGETHER_MAX])
        return outcomes

    async def _ask_some(self, requests: Sequence[AppRequest]) -> list[NtfOutcome]:
        if self._failure is not None:
            return [self._failure] * len(requests)
        waiting = {secrets.token_bytes(CORRELATION_BYTES): n for n in range(len(requests))}
        outcomes: dict[int, NtfOutcome] = {}
        sent = [self._encode(requests[n], correlation) for correlation, n in waiting.items()]
        blocks = pack_blocks(sent)
        try:
            async with asyncio.timeout(self._timing.answer_seconds):
                for block in blocks:
                    self._stream.write(block)
                await self._stream.drain()
                while len(outcomes) < len(requests):
                    for answer in read_answers(await read_block(self._stream)):
                        place = waiting.pop(answer.correlation, None)
                        if place is None or not _is_about(answer, requests[place].entity):
                            raise UnexpectedReply("an answer to nothing that was asked")
                        outcomes[place] = _outcome(answer.reply)
        except BaseException as error:
            match error:
                case TimeoutError():
                    self._fail(TimedOut("the notification server", self._timing.answer_seconds))
                case NotConnected():
                    self._fail(error)
                case ProtocolError():
                    self._fail(NotConnected(f"the notification server broke the protocol: {error}"))
                case _:
                    self._fail(NotConnected("what was asked was given up"))
                    raise
        failure = self._failure or NotConnected("not answered")
        return [outcomes.get(place, failure) for place in range(len(requests))]

    def _encode(self, request: AppRequest, correlation: bytes) -> bytes:
        command = encode_command(request.command)
        authorization = b""
        if request.key is not None:
            signed = signed_bytes(self._session.id, correlation, request.entity, command)
            authorization = request.key.sign(signed)
        return encode_request(authorization, correlation, request.entity, command)

    def _fail(self, failure: HeadgateError) -> None:
        self._failure = failure
        self._stream.abort()

    async def close(self) -> None:
        self._fail(NotConnected("the link was closed"))
        await self._stream.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _is_about(answer: NtfAnswer, entity: bytes) -> bool:
    """Whether an answer names the entity of its request, or none where it should not."""
    return has_right_entity(answer.reply, answer.entity) and answer.entity in (b"", entity)


def _outcome(reply: NtfReply) -> NtfOutcome:
    return RequestRefused(reply.text) if isinstance(reply, Err) else reply
