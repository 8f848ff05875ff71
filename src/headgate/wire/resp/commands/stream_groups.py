"""Groups and what there is to know of them: XGROUP, XINFO.

The groups of a stream are the apps of its domain, which are always there: to create one is answered
as Redis answers it, and to destroy one is refused. Where groups are open, clients make others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.effects import Deliver, Effect
from headgate.core.model.domain import Mode
from headgate.core.model.ids import AppId
from headgate.core.model.stream_id import StreamId
from headgate.core.reader_commands import (
    DropGroup,
    DropReader,
    MakeGroup,
    MakeQueue,
    MakeReader,
    MoveGroup,
    Survey,
)
from headgate.core.reader_effects import AppView, Counted, ReaderView, Surveyed
from headgate.errors import HeadgateError, NoSuchApp, NoSuchQueue
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import (
    OK,
    CommandError,
    NoArray,
    Pieces,
    Reply,
    Simple,
    text_of,
)
from headgate.wire.resp.command_cost import HELP_STEPS
from headgate.wire.resp.commands.stream_commands import (
    READ,
    READING,
    WRITE,
    WRITING,
    app_of,
    client_of,
    counted,
    entries,
    entry_of,
    refusal,
    stream_of,
)
from headgate.wire.resp.commands.table import CommandTable, quoted
from headgate.wire.resp.streams.awaited import Asked, PendingAnswer, Refusal
from headgate.wire.resp.streams.ids import SMALLEST, read_id, write_id
from headgate.wire.resp.streams.keys import StreamName
from headgate.wire.resp.streams.reader_names import read_expression, read_name

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

SECOND = (2, 2, 1)
NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use"
    " the MKSTREAM option to create an empty stream automatically."
)
EXISTS = "BUSYGROUP Consumer Group name already exists"
GROUP_BYTES = 255
FULL_ENTRIES = 10
"""Entries that XINFO STREAM FULL has, unless it is told how many."""
FIXED = "are those of its configuration: change apps of the domain, or use those there are"


# Groups.


@table.command("xgroup|create", -5, flags=WRITE, categories=WRITING, keys=SECOND)
def create(session: RespSession, args: list[bytes]) -> Reply:
    key, group, id, *rest = args
    makes, where = False, None
    words = iter(enumerate(rest))
    for place, arg in words:
        word, more = arg.upper(), len(rest) - place - 1
        if word == b"MKSTREAM":
            makes = True
        elif word == b"ENTRIESREAD" and more:
            integer(next(words)[1], "ERR value for ENTRIESREAD must be positive or -1")
        elif word == b"WHERE" and more:
            where = read_expression(next(words)[1])
        else:
            raise CommandError("ERR unknown subcommand or wrong number of arguments for 'CREATE'")
    after = None if id == b"$" else read_id(id)
    stream = stream_of(session, key)
    if stream.domain.is_open:
        return _make_group(session, stream, group, after, where, makes=makes)
    if where is not None:
        raise CommandError(f"ERR the groups of the domain '{stream.domain.name}' {FIXED}")
    if app_of(stream, group) is None:
        raise _unknown_group(stream, group)

    if not makes:
        return _survey(
            session,
            stream,
            lambda found: CommandError(EXISTS if found.exists else NO_KEY),
            apps=(),
        )

    def make(ref: PendingAnswer) -> MakeQueue:
        return MakeQueue(session.id, ref, stream.queue, stream.domain.name, client_of(session))

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, Counted), "it was made, or was there"
        return OK if effect.count else CommandError(EXISTS)

    return Asked(make, answer, refusal=refusal)


def _make_group(
    session: RespSession,
    stream: StreamName,
    group: bytes,
    after: StreamId | None,
    where: str | None,
    *,
    makes: bool,
) -> Asked:
    if len(group) > GROUP_BYTES:
        raise CommandError(f"ERR the name of a group has at most {GROUP_BYTES} bytes")
    try:
        app = stream.domain.app_of(group.decode())
    except UnicodeDecodeError:
        raise CommandError("ERR the name of a group is not valid UTF-8") from None
    if app is None:
        raise CommandError("ERR the name of a group is empty")

    def make(ref: PendingAnswer) -> MakeGroup:
        name = stream.domain.name
        client = client_of(session)
        return MakeGroup(session.id, ref, stream.queue, name, app, after, makes, where, client)

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, Counted), "it was made, or was there"
        return OK if effect.count else CommandError(EXISTS)

    return Asked(make, answer, refusal=_refusal_of(stream.key, group))


def _refusal_of(key: bytes, group: bytes) -> Refusal:
    """The text of a refusal of XGROUP: the stream may be missing, or the group."""

    def refused(error: HeadgateError) -> CommandError | None:
        if isinstance(error, NoSuchQueue):
            return CommandError(NO_KEY)
        return _no_such_group(key, group) if isinstance(error, NoSuchApp) else refusal(error)

    return refused


def _unknown_group(stream: StreamName, group: bytes) -> CommandError:
    domain = stream.domain
    known = ", ".join(domain.group_of(app) for app in domain.apps)
    what = "apps are" if domain.mode is Mode.FANOUT else "only group is"
    return CommandError(
        f"ERR the domain '{domain.name}' has no app '{quoted(group)}'; its {what} {known}"
    )


@table.command("xgroup|destroy", 4, flags=WRITE, categories=WRITING, keys=SECOND)
def destroy(session: RespSession, args: list[bytes]) -> Reply:
    key, group = args
    stream = stream_of(session, key)
    app = app_of(stream, group)
    if not stream.domain.is_open or app in stream.domain.apps:
        raise CommandError(f"ERR the groups of the domain '{stream.domain.name}' {FIXED}")
    if app is None:
        return 0

    def make(ref: PendingAnswer) -> DropGroup:
        name = stream.domain.name
        return DropGroup(session.id, ref, stream.queue, name, app, client_of(session))

    return Asked(make, counted, refusal=_refusal_of(key, group))


@table.command("xgroup|setid", -5, flags=WRITE, categories=WRITING, keys=SECOND)
def setid(session: RespSession, args: list[bytes]) -> Reply:
    key, group, id, *rest = args
    if rest and (len(rest) != 2 or rest[0].upper() != b"ENTRIESREAD"):
        raise CommandError("ERR unknown subcommand or wrong number of arguments for 'SETID'")
    if rest:
        integer(rest[1], "ERR value for ENTRIESREAD must be positive or -1")
    # Unlike CREATE, Redis takes the smallest id by its sign here.
    after = None if id == b"$" else SMALLEST if id == b"-" else read_id(id)
    stream = stream_of(session, key)
    app = app_of(stream, group)
    if app is None:
        raise _no_such_group(key, group)

    def make(ref: PendingAnswer) -> MoveGroup:
        name = stream.domain.name
        return MoveGroup(session.id, ref, stream.queue, name, app, after, client_of(session))

    return Asked(make, lambda delivered, effect: OK, refusal=_refusal_of(key, group))


@table.command("xgroup|createconsumer", 5, flags=WRITE, categories=WRITING, keys=SECOND)
def createconsumer(session: RespSession, args: list[bytes]) -> Reply:
    key, group, _ = args
    stream, app, name = _consumer_of(session, args)

    def make(ref: PendingAnswer) -> MakeReader:
        return MakeReader(
            session.id, ref, stream.queue, stream.domain.name, app, name, client_of(session)
        )

    return Asked(make, counted, refusal=_refusal_of(key, group))


@table.command("xgroup|delconsumer", 5, flags=WRITE, categories=WRITING, keys=SECOND)
def delconsumer(session: RespSession, args: list[bytes]) -> Reply:
    stream, app, name = _consumer_of(session, args)

    def make(ref: PendingAnswer) -> DropReader:
        return DropReader(
            session.id, ref, stream.queue, stream.domain.name, app, name, client_of(session)
        )

    return Asked(make, counted, refusal=_refusal_of(args[0], args[1]))


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
ShownWith: TypeAlias = Callable[[Surveyed, list[Deliver]], Reply]
"""The same, with some of the messages."""


def _survey(
    session: RespSession,
    stream: StreamName,
    shown: Shown | ShownWith,
    shows: int = 0,
    apps: tuple[AppId, ...] | None = None,
) -> Asked:
    def make(ref: PendingAnswer) -> Survey:
        name = stream.domain.name
        return Survey(session.id, ref, stream.queue, name, client_of(session), shows, apps)

    def answer(delivered: list[Deliver], effect: Effect) -> Reply:
        assert isinstance(effect, Surveyed), "it was surveyed"
        return shown(effect, delivered) if shows else shown(effect)  # type: ignore[call-arg]

    return Asked(make, answer, refusal=refusal, has_entries=bool(shows))


@table.command("xinfo|stream", -3, flags=READ, categories=READING, keys=SECOND)
def stream_(session: RespSession, args: list[bytes]) -> Reply:
    key, *options = args
    if options:
        return _full(session, key, options)
    stream = stream_of(session, key)

    def shown(found: Surveyed, delivered: list[Deliver]) -> Reply:
        if not found.exists:
            return CommandError("ERR no such key")
        ends = [Pieces(entry_of(each)) for each in delivered]
        return {
            **_about(found),
            "groups": found.groups,
            "first-entry": ends[0] if ends else NoArray(),
            "last-entry": ends[-1] if ends else NoArray(),
        }

    return _survey(session, stream, shown, 1, ())


def _about(found: Surveyed) -> dict[str, Reply]:
    return {
        "length": found.messages,
        "radix-tree-keys": 0,
        "radix-tree-nodes": 0,
        "last-generated-id": write_id(found.last or SMALLEST),
        "max-deleted-entry-id": b"0-0",
        "entries-added": found.added,
        "recorded-first-entry-id": write_id(found.first or SMALLEST),
    }


def _full(session: RespSession, key: bytes, options: list[bytes]) -> Reply:
    """XINFO STREAM FULL: also the entries, and what each consumer holds."""
    word, *rest = (option.upper() for option in options)
    if word != b"FULL" or (rest and (len(rest) != 2 or rest[0] != b"COUNT")):
        raise CommandError(
            "ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."
        )
    count = integer(rest[1]) if rest else FULL_ENTRIES
    most = session.hub.broker.shard.limits.range_messages
    count = min(count, most) if count > 0 else most
    stream = stream_of(session, key)

    def shown(found: Surveyed, delivered: list[Deliver]) -> Reply:
        if not found.exists:
            return CommandError("ERR no such key")
        # Of one the core tells the first and the last.
        some = delivered[:count]
        return {
            **_about(found),
            "entries": entries(some),
            "groups": [_shown_in_full(stream, view) for view in found.apps],
        }

    return _survey(session, stream, shown, max(2, count))


def _shown_in_full(stream: StreamName, view: AppView) -> Reply:
    now = view.now
    return {
        "name": stream.domain.group_of(view.app).encode(),
        "last-delivered-id": write_id(view.passed),
        "entries-read": None,
        "lag": view.undelivered,
        "pel-count": view.pending,
        "pending": [
            [
                write_id(each.id),
                each.reader if each.reader is not None else b"bmq:%d" % each.session,
                int((now - each.idle) * 1000),
                each.deliveries,
            ]
            for each in view.held
        ],
        "consumers": [
            {
                "name": reader.name,
                "seen-time": int(reader.pulled * 1000),
                "active-time": -1 if reader.active is None else int(reader.active * 1000),
                "pel-count": reader.pending,
                "pending": [
                    [write_id(each.id), int((now - each.idle) * 1000), each.deliveries]
                    for each in reader.held
                ],
            }
            for reader in view.readers
        ],
    }


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
        "last-delivered-id": write_id(view.passed),
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
        view = next((view for view in found.apps if view.app == app), None)
        if view is None:
            return _no_such_group(key, group)
        return [
            {
                "name": each.name,
                "pending": each.pending,
                "idle": max(0, int(each.idle * 1000)),
                "inactive": _inactive(view, each),
            }
            for each in view.readers
        ]

    return _survey(session, stream, shown, apps=(app,))


def _inactive(view: AppView, reader: ReaderView) -> int:
    """Milliseconds since a consumer was last given anything; -1 if it never was."""
    return -1 if reader.active is None else max(0, int((view.now - reader.active) * 1000))


@table.command(
    "xgroup|help", 2, flags=("loading", "stale"), categories=("stream", "slow"), steps=HELP_STEPS
)
def group_help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [option]",
        "    Make a group, where the domain has them open; its apps are there already.",
        "DESTROY <key> <groupname>",
        "    Remove a group that was made so.",
        "SETID <key> <groupname> <id|$>",
        "    Have a group go on from another place.",
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
        "STREAM <key> [FULL [COUNT <count>]]",
        "    A stream.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]
