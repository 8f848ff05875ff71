"""Broadcast queues as channels: ``SUBSCRIBE bmq://DOMAIN/QUEUE?where=EXPRESSION``.

Whoever can subscribe to a channel can have the messages of a broadcast queue that match an
expression. For Redis the name is that of a channel: subscriptions are counted, left and limited as
others are. Nobody publishes to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.core.channels.audience import Kind
from headgate.core.commands import Close, Open
from headgate.core.effects import Deliver, Effect
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.ids import QueueId, SessionId
from headgate.core.model.interest import Interest
from headgate.core.model.value import value
from headgate.errors import BadSubscription, HeadgateError, LimitReached, NoRight, Overloaded
from headgate.wire.resp.codec.message_frames import FORMS
from headgate.wire.resp.codec.replies import CommandError, PushReply, Reply, Several, text_of
from headgate.wire.resp.command_cost import PORTION, refusal
from headgate.wire.resp.streams.awaited import (
    AGAIN_SECONDS,
    Asked,
    AskedTogether,
    PendingAnswer,
    ReplyRoom,
)
from headgate.wire.resp.streams.keys import ADDRESS, QUEUE_NAME, domain_in
from headgate.wire.resp.streams.reader_names import WHERE, read_expression

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession

NONE: Final[Mapping[QueueId, bytes]] = {}


@value
class QueueChannel:
    """A channel that is a broadcast queue, and what its subscriber wants of it."""

    name: bytes
    domain: Domain
    queue: QueueId
    interest: Interest


class QueueChannels:
    """The broadcast queues that sessions subscribe to.

    Owned by the hub. A session hears a queue under one name.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._heard: dict[SessionId, dict[QueueId, bytes]] = {}
        """The names of the queues of each session."""

    def subscribing(self, session: RespSession, names: Sequence[bytes]) -> Reply:
        """Subscribe a session to channels of which some are queues; none if none is."""
        found = {}
        for place, name in enumerate(names):
            if name.startswith(ADDRESS) and (queue := self._find(name)) is not None:
                found[place] = queue
        if not found:
            return None
        if session.is_executing:
            raise CommandError("ERR a queue is not subscribed to in a transaction")
        if self._hub.elsewhere is not None:
            raise CommandError("ERR queues are subscribed to where the router has one process")
        if len(names) > PORTION:
            raise CommandError(f"ERR at most {PORTION} names at once, if a queue is among them")
        heard = self._heard.get(session.id, NONE)
        parts: dict[int, Asked] = {}
        asked: set[bytes] = set()
        for place, each in found.items():
            if heard.get(each.queue) != each.name and each.name not in asked:
                asked.add(each.name)
                parts[place] = self._opening(session, each)
        most = self._hub.broker.limits.reply_bytes
        room = ReplyRoom(most, lambda: refusal(session, LimitReached("reply_bytes", most)))
        finish = partial(self._confirmed, session, names, found)
        return AskedTogether(parts, finish, room, is_block=False) if parts else finish({})

    def unsubscribed(self, session: SessionId, names: Iterable[bytes]) -> None:
        """Close the queues among the channels that a session has left."""
        heard = self._heard.get(session)
        if heard is None:
            return
        left = {*names}
        closing = [queue for queue, name in heard.items() if name in left]
        for queue in closing:
            del heard[queue]
        if not heard:
            del self._heard[session]
        self._close(session, closing)

    def forget(self, session: SessionId) -> None:
        """The session is gone, and the core closes its queues."""
        self._heard.pop(session, None)

    def tell(self, session: RespSession, effects: Iterable[Effect]) -> None:
        """Write the messages of broadcast queues to their subscriber."""
        heard = self._heard.get(session.id)
        if heard is None or session.is_closing:
            return
        frames = list(self._frames(session, heard, effects))
        if frames:
            session.outlet.deliver(b"".join(frames), len(frames))

    def _frames(
        self, session: RespSession, heard: Mapping[QueueId, bytes], effects: Iterable[Effect]
    ) -> Iterator[bytes]:
        form = FORMS[session.protocol]
        for effect in effects:
            if type(effect) is Deliver and effect.ref is None and effect.queue in heard:
                name, body = heard[effect.queue], effect.message.body
                framing = form.framing(Kind.EXACT, name, name)
                yield b"%b%b%b" % (framing.lead(len(body)), body, framing.tail)

    def _find(self, name: bytes) -> QueueChannel | None:
        """The queue that a name means; None if it is that of an ordinary channel."""
        address, mark, rest = name.partition(b"?")
        domain = self._hub.broker.shard.domains.get(domain_in(address) or "")
        if domain is None or domain.mode is Mode.EXCLUSIVE:
            return None
        shown = text_of(address[:128])
        if domain.mode is not Mode.BROADCAST:
            raise CommandError(f"ERR {shown} is durable: read it with XREADGROUP")
        queue = address.removeprefix(ADDRESS).partition(b"/")[2]
        if QUEUE_NAME.fullmatch(queue) is None or (mark and not rest.startswith(WHERE)):
            raise CommandError(
                "ERR a broadcast queue is bmq://DOMAIN/QUEUE, or bmq://DOMAIN/QUEUE?where=EXPR"
            )
        expression = read_expression(rest.removeprefix(WHERE)) if mark else None
        return QueueChannel(name, domain, QueueId(address), Interest(expression))

    def _opening(self, session: RespSession, channel: QueueChannel) -> Asked:
        client = "" if session.user is None else session.user.name

        def make(ref: PendingAnswer) -> Open:
            interests = (channel.interest,)
            domain = channel.domain.name
            return Open(session.id, ref, channel.queue, domain, interests=interests, client=client)

        return Asked(make, lambda delivered, effect: True, refusal=_refusal)

    def _confirmed(
        self,
        session: RespSession,
        names: Sequence[bytes],
        found: Mapping[int, QueueChannel],
        opened: Mapping[int, Reply],
    ) -> Reply:
        """The confirmations of a SUBSCRIBE, now that its queues are open. One that could not be
        opened has its error in this place."""
        frames: list[Reply] = []
        refused: dict[bytes, Reply] = {}
        for place, name in enumerate(names):
            reply = opened.get(place)
            if isinstance(reply, CommandError):
                refused[name] = reply
            elif reply is True:
                self._heard.setdefault(session.id, {})[found[place].queue] = name
            if name in refused:
                frames.append(refused[name])
                continue
            try:
                [count] = self._hub.subscribe(session, Kind.EXACT, [name])
            except HeadgateError as error:
                self.unsubscribed(session.id, [name])
                frames.append(session.failure(error))
            else:
                frames.append(PushReply((b"subscribe", name, count)))
        return Several(frames)

    def _close(self, session: SessionId, queues: Sequence[QueueId]) -> None:
        if not queues or session not in self._hub.sessions:
            return
        try:
            self._hub.shell.submit(session, [Close(session, None, queue) for queue in queues])
        except Overloaded:
            self._hub.shell.later(AGAIN_SECONDS, partial(self._close, session, queues))


def _refusal(error: HeadgateError) -> CommandError | None:
    if isinstance(error, BadSubscription):
        return CommandError(f"ERR bad expression at {error.error.offset}: {error.error.message}")
    return CommandError(f"NOPERM {error}") if isinstance(error, NoRight) else None
