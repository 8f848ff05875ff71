"""Feeds: which channels feed domains, and the queues for their messages.

Most channels feed nothing, and publishing to them must not become slower: without feeds one
attribute is read, and with some a set of channels known to feed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from headgate.core.channels.audience import Kind
from headgate.core.effects import Deliver, Effect
from headgate.core.model.binding import ChannelFeed
from headgate.core.model.body_paths import read_body
from headgate.core.model.domain import Domain, Mode
from headgate.core.model.glob import Glob
from headgate.core.model.ids import MessageId, QueueId
from headgate.core.model.message import Fields, Message, PropertyValue
from headgate.core.model.property_type import PropertyType
from headgate.core.model.queue_uri import QUEUE_CHARS_MAX, SCHEME
from headgate.core.model.value import value
from headgate.core.reader_commands import Feed, FeedPart
from headgate.core.reader_effects import Fed
from headgate.errors import HeadgateError, QuotaReached
from headgate.wire.resp.codec.replies import CommandError, Reply, text_of
from headgate.wire.resp.streams.awaited import Asked, PendingAnswer
from headgate.wire.resp.streams.keys import domain_in, spelled

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

KNOWN_MAX: Final = 10_000
"""Channels remembered with whether they feed a domain."""
NO_QUEUE: Final = QueueId(b"")
"""Stands for a channel whose name cannot be a queue's."""
ID_BYTES: Final = 16
KINDS: Final = {Kind.EXACT: "plain", Kind.SHARDED: "sharded"}
ID_PROPERTY: Final = "\0id"
"""Key for the id in a look-up of properties; no property has such a name."""


@value
class BoundFeed:
    """One feed of a channel: the domain and the queue."""

    domain: Domain
    feed: ChannelFeed
    queue: QueueId


class ChannelFeeds:
    """Finds the feeds of a channel by the present domains. Owned by the hub, which has it check
    them regularly."""

    def __init__(self, domains: Mapping[str, Domain], longest: int) -> None:
        self._domains = domains
        self._longest = longest
        """Longest name of a queue in bytes; publishing to a longer channel is refused."""
        self._feeds: list[tuple[Domain, ChannelFeed, tuple[Glob, ...]]] = []
        self._bound: dict[tuple[Kind, bytes], tuple[BoundFeed, ...]] = {}
        self._broadcast: set[str] = set()
        """The domains with broadcast queues."""
        self.unfed: set[bytes] = set()
        """Plain channels that are known to feed nothing, and to be no queue."""
        self.is_used = False
        """Whether any domain has a feed, or broadcast queues."""
        self.look()

    def look(self) -> None:
        """Check whether the settings of domains have changed."""
        now = [
            (domain, feed)
            for domain in self._domains.values()
            if domain.mode is not Mode.EXCLUSIVE
            for feed in domain.feeds
        ]
        broadcast = {name for name, d in self._domains.items() if d.mode is Mode.BROADCAST}
        before = [(domain, feed) for domain, feed, _ in self._feeds]
        if (
            broadcast == self._broadcast
            and len(now) == len(before)
            and all(a is c and b is d for (a, b), (c, d) in zip(now, before, strict=True))
        ):
            return
        self._broadcast = broadcast
        self.is_used = bool(now or broadcast)
        self._feeds = [
            (domain, feed, tuple(Glob(each.encode()) for each in feed.channels))
            for domain, feed in now
        ]
        self._bound, self.unfed = {}, set()

    def of(self, kind: Kind, channel: bytes) -> tuple[BoundFeed, ...]:
        """The feeds of a channel, one for each queue."""
        if len(channel) > self._longest:
            return ()
        found = self._bound.get((kind, channel))
        if found is None:
            if len(self._bound) >= KNOWN_MAX:
                self._bound, self.unfed = {}, set()
            found = self._bound[kind, channel] = self._find(kind, channel)
            if not found and kind is Kind.EXACT and not self.is_queue(channel):
                self.unfed.add(channel)
        return found

    def is_queue(self, channel: bytes) -> bool:
        """Whether a channel is a broadcast queue, to which nobody publishes."""
        return domain_in(channel) in self._broadcast

    def has_none(self, names: Sequence[bytes]) -> bool:
        """Whether none of these plain channels feeds anything, or is a queue."""
        if self.unfed.issuperset(names):
            return True
        return not any(self.of(Kind.EXACT, name) or self.is_queue(name) for name in {*names})

    def _find(self, kind: Kind, channel: bytes) -> tuple[BoundFeed, ...]:
        found: dict[QueueId, BoundFeed] = {}
        for domain, feed, globs in self._feeds:
            if KINDS[kind] in feed.kinds and any(glob.matches(channel) for glob in globs):
                queue = _queue(domain, feed, channel)
                found.setdefault(queue, BoundFeed(domain, feed, queue))
        return tuple(found.values())


def _queue(domain: Domain, feed: ChannelFeed, channel: bytes) -> QueueId:
    name = feed.queue.encode() or (spelled(channel) if len(channel) <= QUEUE_CHARS_MAX else b"")
    if not 0 < len(name) <= QUEUE_CHARS_MAX:
        return NO_QUEUE
    return QueueId(f"{SCHEME}{domain.name}/".encode() + name)


def ask_to_feed(
    session: RespSession, kind: Kind, bound: Sequence[BoundFeed], channel: bytes, body: bytes
) -> Asked:
    """Have the domains that a channel feeds take a message, and publish it after that."""
    hub = session.hub
    for each in bound:
        if each.queue == NO_QUEUE:
            raise CommandError(
                f"ERR the channel '{text_of(channel[:128])}' feeds the domain {each.domain.name},"
                " and its name is no name of a queue: set queue in that feed"
            )
    parts = tuple(
        FeedPart(
            each.queue,
            each.domain.name,
            _message(session, each, channel, body),
            each.feed.when_full == "drop",
            each.feed.when_full == "wait",
        )
        for each in bound
    )

    # A transaction cannot wait.
    may_wait = any(part.waits for part in parts) and not session.is_executing

    def make(ref: PendingAnswer) -> Feed:
        return Feed(session.id, ref, channel, body, parts, kind is Kind.SHARDED, may_wait)

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, Fed), "it was taken"
        return hub.channels.receivers(kind, channel) + effect.taken

    # The core has a clock of its own for it.
    return Asked(make, answer, refusal=_refusal, seconds=0.0 if may_wait else None)


def _refusal(error: HeadgateError) -> CommandError | None:
    if isinstance(error, QuotaReached):
        name = f"max_{error.unit}" if error.scope == "queue" else f"domain_max_{error.unit}"
        return CommandError(
            f"OOM the {error.scope} that this channel feeds is full: {name} {error.limit}"
        )
    return None


def _message(session: RespSession, bound: BoundFeed, channel: bytes, body: bytes) -> Message:
    hub, feed = session.hub, bound.feed
    properties: dict[str, PropertyValue] = {}
    types = bytearray()
    if feed.channel_property:
        try:
            properties[feed.channel_property] = channel.decode()
            types.append(PropertyType.STRING)
        except UnicodeDecodeError:
            properties[feed.channel_property] = channel
            types.append(PropertyType.BINARY)
    id, own = b"", len(types)
    if feed.properties or feed.id is not None:
        paths = dict(feed.properties)
        if feed.id is not None:
            paths[ID_PROPERTY] = feed.id
        found = read_body(body, paths, "", hub.broker.limits.json_bytes)
        for (name, item), type in zip(found.values.items(), found.types, strict=True):
            if name == ID_PROPERTY:
                text = f"{bound.domain.name}\0{item!r}"
                id = sha256(text.encode()).digest()[:ID_BYTES]
            elif name not in properties:
                properties[name] = item
                types.append(type)
        hub.bodies.note(bound.domain.name, is_unread=found.is_unread, misfits=found.misfits)
    drawn = id or hub.shell.draw(ID_BYTES)
    return Message(MessageId(drawn), body, 0.0, Fields(properties, bytes(types), "", own))
