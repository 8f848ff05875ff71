"""Channels and patterns: subscribing, publishing, and who is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.audience import Kind
from headgate.core.glob import Glob
from headgate.wire.resp.replies import CommandError, Push, Reply, Several, Simple, text_of
from headgate.wire.resp.table import Handler, Table

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = Table()

SUBSCRIBING = ("pubsub", "noscript", "loading", "stale")
PUBLISHING = ("pubsub", "loading", "stale", "fast")
ASKING = ("pubsub", "loading", "stale")
SLOW = ("pubsub", "slow")
FAST = ("pubsub", "fast")
SHARDED_KEYS = (1, -1, 1)


def _subscribing(word: str, kind: Kind) -> Handler:
    def subscribe(session: RespSession, args: list[bytes]) -> Reply:
        if session.is_executing and kind is Kind.SHARDED:
            # Redis lets the older two through, for the sake of those who relied on it.
            raise CommandError(f"ERR {word.upper()} isn't allowed for a DENY BLOCKING client")
        counts = session.hub.subscribe(session, kind, args)
        confirmed = zip(args, counts, strict=True)
        return Several([Push((word, name, count)) for name, count in confirmed])

    return subscribe


def _unsubscribing(word: str, kind: Kind) -> Handler:
    def unsubscribe(session: RespSession, args: list[bytes]) -> Reply:
        told = session.hub.unsubscribe(session, kind, args or None)
        return Several([Push((word, name, count)) for name, count in told])

    return unsubscribe


def _publishing(kind: Kind) -> Handler:
    def publish(session: RespSession, args: list[bytes]) -> Reply:
        [count] = session.hub.channels.publish(kind, [args])
        session.hub.flush_soon()
        return count

    return publish


for word, kind, keys in (
    ("subscribe", Kind.EXACT, (0, 0, 0)),
    ("psubscribe", Kind.PATTERN, (0, 0, 0)),
    ("ssubscribe", Kind.SHARDED, SHARDED_KEYS),
):
    leave = word.replace("sub", "unsub")
    table.command(word, -2, flags=SUBSCRIBING, categories=SLOW, keys=keys)(_subscribing(word, kind))
    table.command(leave, -1, flags=SUBSCRIBING, categories=SLOW, keys=keys)(
        _unsubscribing(leave, kind)
    )
table.command("publish", 3, flags=PUBLISHING, categories=FAST)(_publishing(Kind.EXACT))
table.command("spublish", 3, flags=PUBLISHING, categories=FAST, keys=(1, 1, 1))(
    _publishing(Kind.SHARDED)
)


table.family("pubsub", -1, flags=("loading", "fast"), categories=("slow",))


def _listing(kind: Kind) -> Handler:
    def channels(session: RespSession, args: list[bytes]) -> Reply:
        if len(args) > 1:
            raise CommandError(
                "ERR unknown subcommand or wrong number of arguments for"
                f" '{text_of(session.typed)}'. Try PUBSUB HELP."
            )
        names = session.hub.channels.names(kind)
        if args:
            matches = Glob(args[0]).matches
            return [name for name in names if matches(name)]
        return list(names)

    return channels


def _counting(kind: Kind) -> Handler:
    def numsub(session: RespSession, args: list[bytes]) -> Reply:
        reply: list[Reply] = []
        for name in args:
            reply += [name, session.hub.channels.subscribers(kind, name)]
        return reply

    return numsub


for prefix, kind in (("", Kind.EXACT), ("shard", Kind.SHARDED)):
    command = table.command
    command(f"pubsub|{prefix}channels", -2, flags=ASKING, categories=SLOW)(_listing(kind))
    command(f"pubsub|{prefix}numsub", -2, flags=ASKING, categories=SLOW)(_counting(kind))


@table.command("pubsub|numpat", 2, flags=ASKING, categories=SLOW)
def numpat(session: RespSession, args: list[bytes]) -> Reply:
    return session.hub.channels.count(Kind.PATTERN)


@table.command("pubsub|help", 2, flags=ASKING, categories=SLOW)
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
