"""Channels and patterns: subscribing, publishing, and who is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.core.channels.audience import Kind
from headgate.core.channels.channels import Channels
from headgate.wire.resp.codec.replies import (
    CommandError,
    Parts,
    PushReply,
    Reply,
    Several,
    Simple,
    array_of,
    text_of,
)
from headgate.wire.resp.command_cost import HELP_STEPS, PORTION, glob_of, listed, names_in, portions
from headgate.wire.resp.commands.table import ChannelUse, CommandTable, Handler, Weigh
from headgate.wire.resp.streams.bodies import JSON_BYTES_A_STEP
from headgate.wire.resp.streams.feeds import ask_to_feed

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

# S002-83: what tools are told of these commands.
SUBSCRIBING = ("pubsub", "noscript", "loading", "stale")
PUBLISHING = ("pubsub", "loading", "stale", "fast")
ASKING = ("pubsub", "loading", "stale")
# S002-84, RESP-79: the categories that access rules may name.
SLOW = ("pubsub", "slow")
FAST = ("pubsub", "fast")
# S002-68: sharded channels count as keys, so they have a slot.
SHARDED_KEYS = (1, -1, 1)

SUBSCRIPTION_STEPS, PATTERN_STEPS = 10, 25
"""Of a name that is subscribed to or left, where it cannot take turns with others."""
MATCH_STEPS = 2
"""Of a name that is looked at."""


def _subscribing(word: str, kind: Kind) -> Handler:
    def subscribe(session: RespSession, args: list[bytes]) -> Reply:
        if session.is_executing and kind is Kind.SHARDED:
            # Redis lets the older two through, for the sake of those who relied on it.
            raise CommandError(f"ERR {word.upper()} isn't allowed for a DENY BLOCKING client")
        hub = session.hub
        hub.channels.check_names(session.id, kind, args)
        if kind is Kind.EXACT and (asked := hub.queue_channels.subscribing(session, args)):
            return asked
        if len(args) > PORTION:
            return Parts(_confirmed(session, args))
        return confirmations(session, args)

    def confirmations(session: RespSession, names: Sequence[bytes]) -> Reply:
        counts = session.hub.subscribe(session, kind, names)
        confirmed = zip(names, counts, strict=True)
        # RESP-31, RESP-36: one confirmation for each name, counting up, and nothing else.
        return Several([PushReply((word, name, count)) for name, count in confirmed])

    def _confirmed(session: RespSession, names: list[bytes]) -> Iterator[Reply]:
        """Each name is subscribed to when its confirmation is made."""
        for portion in portions(names):
            yield confirmations(session, portion)

    return subscribe


def _unsubscribing(word: str, kind: Kind) -> Handler:
    def unsubscribe(session: RespSession, args: list[bytes]) -> Reply:
        names = args or list(session.interests.of(kind))
        if len(names) > PORTION:
            return Parts(confirmations(session, portion) for portion in portions(names))
        return confirmations(session, names or None)

    def confirmations(session: RespSession, names: Sequence[bytes] | None) -> Reply:
        result = session.hub.unsubscribe(session, kind, names)
        return Several([PushReply((word, name, count)) for name, count in result])

    return unsubscribe


def _publishing(kind: Kind) -> Handler:
    def publish(session: RespSession, args: list[bytes]) -> Reply:
        feeds = session.hub.feeds
        if feeds.is_used and kind is Kind.EXACT and feeds.is_queue(args[0]):
            raise CommandError(f"ERR {text_of(args[0][:128])} is a queue: add to it with XADD")
        if feeds.is_used and (bound := feeds.of(kind, args[0])):
            session.hub.channels.check_name(args[0])
            return ask_to_feed(session, kind, bound, *args)
        [count] = session.hub.channels.publish(kind, [args])
        session.hub.flush_soon()
        return count

    return publish


def _feeding(kind: Kind) -> Weigh:
    """The steps of taking properties out of a body, once for each domain that has it."""

    def steps(session: RespSession, args: list[bytes]) -> int:
        feeds, most = session.hub.feeds, session.hub.broker.limits.json_bytes
        bound = feeds.of(kind, args[0]) if feeds.is_used else ()
        times = sum(bool(each.feed.properties) or each.feed.id is not None for each in bound)
        return times * min(len(args[1]), most) // JSON_BYTES_A_STEP

    return steps


def _leaving(kind: Kind) -> Weigh:
    """The weight of leaving channels: who names nothing leaves everything."""
    return lambda session, args: 0 if args else SUBSCRIPTION_STEPS * len(session.interests.of(kind))


for word, kind, keys, use in (
    ("subscribe", Kind.EXACT, (0, 0, 0), ChannelUse.USES),
    ("psubscribe", Kind.PATTERN, (0, 0, 0), ChannelUse.PATTERNS),
    ("ssubscribe", Kind.SHARDED, SHARDED_KEYS, ChannelUse.USES),
):
    leave = word.replace("sub", "unsub")
    for name, arity, run in (
        (word, -2, _subscribing(word, kind)),
        (leave, -1, _unsubscribing(leave, kind)),
    ):
        table.command(
            name,
            arity,
            flags=SUBSCRIBING,
            categories=SLOW,
            keys=keys,
            each=PATTERN_STEPS if kind is Kind.PATTERN else SUBSCRIPTION_STEPS,
            steps=_leaving(kind) if name is leave else 0,
            answer=names_in,
            is_sliced=True,
            channels=ChannelUse.LEAVES if name is leave else use,
            is_confirmed=True,
            while_subscribed=True,
        )(run)
for word, kind, keys in (
    ("publish", Kind.EXACT, (0, 0, 0)),
    ("spublish", Kind.SHARDED, (1, 1, 1)),
):
    table.command(
        word,
        3,
        flags=PUBLISHING,
        categories=FAST,
        keys=keys,
        steps=_feeding(kind),
        publishes=kind,
        channels=ChannelUse.USES,
    )(_publishing(kind))


table.family("pubsub", -1, flags=("loading", "fast"), categories=("slow",))


def _listing(kind: Kind) -> Handler:
    def channels(session: RespSession, args: list[bytes]) -> Reply:
        if len(args) > 1:
            raise CommandError(
                "ERR unknown subcommand or wrong number of arguments for"
                f" '{text_of(session.typed)}'. Try PUBSUB HELP."
            )
        names = list(session.hub.channels.names(kind))
        return Parts(listed(names, glob_of(session, args[0]) if args else None))

    return channels


def _all(kind: Kind) -> Weigh:
    return lambda session, args: MATCH_STEPS * session.hub.channels.count(kind)


def _all_bytes(kind: Kind) -> Weigh:
    return lambda session, args: names_in(session, list(session.hub.channels.names(kind)))


def _counting(kind: Kind) -> Handler:
    def numsub(session: RespSession, args: list[bytes]) -> Reply:
        return Parts(counted(session.hub.channels, args))

    def counted(channels: Channels, names: list[bytes]) -> Iterator[Reply]:
        yield array_of(2 * len(names))
        for portion in portions(names):
            yield Several([each for n in portion for each in (n, channels.subscribers(kind, n))])

    return numsub


for prefix, kind in (("", Kind.EXACT), ("shard", Kind.SHARDED)):
    command = table.command
    command(
        f"pubsub|{prefix}channels",
        -2,
        flags=ASKING,
        categories=SLOW,
        steps=_all(kind),
        answer=_all_bytes(kind),
        is_sliced=True,
    )(_listing(kind))
    command(
        f"pubsub|{prefix}numsub",
        -2,
        flags=ASKING,
        categories=SLOW,
        answer=names_in,
        is_sliced=True,
    )(_counting(kind))


@table.command("pubsub|numpat", 2, flags=ASKING, categories=SLOW)
def numpat(session: RespSession, args: list[bytes]) -> Reply:
    # RESP-51: distinct patterns, however many sessions have them.
    return session.hub.channels.count(Kind.PATTERN)


@table.command("pubsub|help", 2, flags=ASKING, categories=SLOW, steps=HELP_STEPS)
def help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANNELS [<pattern>]",
        "    The channels that somebody is subscribed to, those that match if a pattern is given.",
        "NUMPAT",
        "    How many distinct patterns somebody is subscribed to.",
        "NUMSUB [<channel> ...]",
        "    How many subscribers each of these channels has, without those of patterns.",
        "SHARDCHANNELS [<pattern>]",
        "    As CHANNELS, of sharded channels.",
        "SHARDNUMSUB [<channel> ...]",
        "    As NUMSUB, of sharded channels.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]
