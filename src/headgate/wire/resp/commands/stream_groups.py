"""Groups and what there is to know of them: XGROUP, XINFO.

The groups of a stream are the apps of its domain. They are always there: to create one is answered
as Redis answers it, and to destroy one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.effects import Deliver, Effect
from headgate.core.model.domain import Mode
from headgate.core.model.ids import AppId
from headgate.core.reader_commands import DropReader, MakeQueue, MakeReader, Survey
from headgate.core.reader_effects import AppView, Counted, Surveyed
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import OK, CommandError, Reply, Simple, text_of
from headgate.wire.resp.command_cost import HELP_STEPS
from headgate.wire.resp.commands.stream_commands import (
    READ,
    READING,
    WRITE,
    WRITING,
    GroupRefusal,
    app_of,
    client_of,
    counted,
    refusal,
    stream_of,
)
from headgate.wire.resp.commands.table import CommandTable, quoted
from headgate.wire.resp.streams.awaited import Asked, PendingAnswer
from headgate.wire.resp.streams.ids import SMALLEST, read_id, write_id
from headgate.wire.resp.streams.keys import StreamName
from headgate.wire.resp.streams.reader_names import read_name

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

SECOND = (2, 2, 1)
NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use"
    " the MKSTREAM option to create an empty stream automatically."
)
EXISTS = "BUSYGROUP Consumer Group name already exists"
FIXED = "are those of its configuration: change apps of the domain, or use those there are"


# Groups.


@table.command("xgroup|create", -5, flags=WRITE, categories=WRITING, keys=SECOND)
def create(session: RespSession, args: list[bytes]) -> Reply:
    key, group, id, *rest = args
    makes = False
    words = iter(enumerate(rest))
    for place, arg in words:
        word, more = arg.upper(), len(rest) - place - 1
        if word == b"MKSTREAM":
            makes = True
        elif word == b"ENTRIESREAD" and more:
            integer(next(words)[1], "ERR value for ENTRIESREAD must be positive or -1")
        else:
            raise CommandError("ERR unknown subcommand or wrong number of arguments for 'CREATE'")
    if id != b"$":
        read_id(id)
    stream = stream_of(session, key)
    if app_of(stream, group) is None:
        raise _unknown_group(stream, group)

    if not makes:
        return _survey(
            session, stream, lambda found: CommandError(EXISTS if found.exists else NO_KEY)
        )

    def make(ref: PendingAnswer) -> MakeQueue:
        return MakeQueue(session.id, ref, stream.queue, stream.domain.name, client_of(session))

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, Counted), "it was made, or was there"
        return OK if effect.count else CommandError(EXISTS)

    return Asked(make, answer, refusal=refusal)


def _unknown_group(stream: StreamName, group: bytes) -> CommandError:
    domain = stream.domain
    known = ", ".join(domain.group_of(app) for app in domain.apps)
    what = "apps are" if domain.mode is Mode.FANOUT else "only group is"
    return CommandError(
        f"ERR the domain '{domain.name}' has no app '{quoted(group)}'; its {what} {known}"
    )


@table.command("xgroup|destroy", 4, flags=WRITE, categories=WRITING, keys=SECOND)
@table.command("xgroup|setid", -5, flags=WRITE, categories=WRITING, keys=SECOND)
def refuse(session: RespSession, args: list[bytes]) -> Reply:
    stream = stream_of(session, args[0])
    raise CommandError(f"ERR the groups of the domain '{stream.domain.name}' {FIXED}")


@table.command("xgroup|createconsumer", 5, flags=WRITE, categories=WRITING, keys=SECOND)
def createconsumer(session: RespSession, args: list[bytes]) -> Reply:
    key, group, _ = args
    stream, app, name = _consumer_of(session, args)

    def make(ref: PendingAnswer) -> MakeReader:
        return MakeReader(
            session.id, ref, stream.queue, stream.domain.name, app, name, client_of(session)
        )

    return Asked(make, counted, refusal=GroupRefusal(key, group))


@table.command("xgroup|delconsumer", 5, flags=WRITE, categories=WRITING, keys=SECOND)
def delconsumer(session: RespSession, args: list[bytes]) -> Reply:
    stream, app, name = _consumer_of(session, args)

    def make(ref: PendingAnswer) -> DropReader:
        return DropReader(
            session.id, ref, stream.queue, stream.domain.name, app, name, client_of(session)
        )

    return Asked(make, counted, refusal=lambda _: CommandError(NO_KEY))


def _consumer_of(session: RespSession, args: list[bytes]) -> tuple[StreamName, AppId, bytes]:
    """The stream, the app and the name that a key, a group and a consumer are."""
    key, group, consumer = args
    stream = stream_of(session, key)
    app = app_of(stream, group)
    if app is None:
        raise _no_such_group(key, group)
    return stream, app, read_name(consumer)[0]


def _no_such_group(key: bytes, group: bytes) -> CommandError:
    return CommandError(
        f"NOGROUP No such consumer group '{text_of(group)}' for key name '{text_of(key)}'"
    )


# What there is.


Shown: TypeAlias = Callable[[Surveyed], Reply]
"""Makes the answer of what there is."""


def _survey(session: RespSession, stream: StreamName, shown: Shown) -> Asked:
    def make(ref: PendingAnswer) -> Survey:
        return Survey(session.id, ref, stream.queue, stream.domain.name, client_of(session))

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, Surveyed), "it was surveyed"
        return shown(effect)

    return Asked(make, answer, refusal=refusal)


@table.command("xinfo|stream", -3, flags=READ, categories=READING, keys=SECOND)
def stream_(session: RespSession, args: list[bytes]) -> Reply:
    if len(args) > 1:
        raise CommandError("ERR XINFO STREAM FULL is not there yet: ask XINFO GROUPS and XPENDING")
    stream = stream_of(session, args[0])

    def shown(found: Surveyed) -> Reply:
        if not found.exists:
            return CommandError("ERR no such key")
        last = write_id(found.last or SMALLEST)
        return {
            "length": found.messages,
            "radix-tree-keys": 0,
            "radix-tree-nodes": 0,
            "last-generated-id": last,
            "max-deleted-entry-id": b"0-0",
            "entries-added": found.messages,
            "recorded-first-entry-id": b"0-0",
            "groups": len(stream.domain.apps),
            "first-entry": None,
            "last-entry": None,
        }

    return _survey(session, stream, shown)


@table.command("xinfo|groups", 3, flags=READ, categories=READING, keys=SECOND)
def groups(session: RespSession, args: list[bytes]) -> Reply:
    stream = stream_of(session, args[0])

    def shown(found: Surveyed) -> Reply:
        if not found.exists:
            return CommandError("ERR no such key")
        return [_shown_group(stream, view) for view in found.apps]

    return _survey(session, stream, shown)


def _shown_group(stream: StreamName, view: AppView) -> Reply:
    return {
        "name": stream.domain.group_of(view.app).encode(),
        "consumers": len(view.readers),
        "pending": view.pending,
        "last-delivered-id": write_id(view.last or SMALLEST),
        "entries-read": None,
        "lag": view.undelivered,
    }


@table.command("xinfo|consumers", 4, flags=READ, categories=READING, keys=SECOND)
def consumers(session: RespSession, args: list[bytes]) -> Reply:
    key, group = args
    stream = stream_of(session, key)
    app = app_of(stream, group)
    if app is None:
        raise _no_such_group(key, group)

    def shown(found: Surveyed) -> Reply:
        if not found.exists:
            return CommandError("ERR no such key")
        view = next(view for view in found.apps if view.app == app)
        return [
            {
                "name": each.name,
                "pending": each.pending,
                "idle": max(0, int(each.idle * 1000)),
                "inactive": max(0, int(each.idle * 1000)),
            }
            for each in view.readers
        ]

    return _survey(session, stream, shown)


@table.command(
    "xgroup|help", 2, flags=("loading", "stale"), categories=("stream", "slow"), steps=HELP_STEPS
)
def group_help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [option]",
        "    Groups are the apps of the domain: one that is there is answered with BUSYGROUP.",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Make a consumer known.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Forget a consumer; what it holds goes to others.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]


@table.command(
    "xinfo|help", 2, flags=("loading", "stale"), categories=("stream", "slow"), steps=HELP_STEPS
)
def info_help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    The consumers of a group.",
        "GROUPS <key>",
        "    The groups of a stream.",
        "STREAM <key>",
        "    A stream.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]
