"""COMMAND, and what tools and test suites for Redis ask besides: DEBUG, FUNCTION, SLOWLOG, LATENCY.

There are no functions, no slow log and no record of latencies; the answers say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from headgate.wire.resp.codec.replies import (
    OK,
    CommandError,
    Encoded,
    Flags,
    PushReply,
    Reply,
    Several,
    Simple,
    Verbatim,
    encode,
    text_of,
)
from headgate.wire.resp.command_cost import HELP_STEPS, glob_of
from headgate.wire.resp.commands.cluster import keys_of
from headgate.wire.resp.commands.connection import VERSION
from headgate.wire.resp.commands.table import CommandEntry, CommandTable, Handler

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

ASKING = ("loading", "stale")
CONNECTION = ("slow", "connection")
ADMIN = ("admin", "noscript", "loading", "stale")
DANGEROUS = ("admin", "slow", "dangerous")

GROUPS = {
    "pubsub": "pubsub",
    "connection": "connection",
    "transaction": "transactions",
    "string": "string",
    "keyspace": "generic",
    "stream": "stream",
}
"""The chapter of the documentation for a category; all others are about the server."""

ALL_STEPS = 1000
"""Of describing all commands."""
DESCRIBED_STEPS = 10
"""Of a name that is looked up, and its description sent."""

Filter: TypeAlias = Callable[[CommandEntry], bool]


# The commands.


@table.command("command", -1, flags=ASKING, categories=CONNECTION, steps=ALL_STEPS)
def command(session: RespSession, args: list[bytes]) -> Reply:
    return [described(entry) for entry in session.hub.table]


@table.command("command|count", 2, flags=ASKING, categories=CONNECTION)
def count(session: RespSession, args: list[bytes]) -> Reply:
    return len(session.hub.table)


@table.command(
    "command|info",
    -2,
    flags=ASKING,
    categories=CONNECTION,
    each=DESCRIBED_STEPS,
    steps=ALL_STEPS,
)
def info(session: RespSession, args: list[bytes]) -> Reply:
    commands = session.hub.table
    found = [commands.get(name) for name in args] if args else list(commands)
    # However often one is asked for, it is described once.
    replies: dict[str, Reply] = {
        entry.name: Encoded(encode(described(entry), session.protocol))
        for entry in {entry.name: entry for entry in found if entry is not None}.values()
    }
    return [None if entry is None else replies[entry.name] for entry in found]


@table.command(
    "command|docs",
    -2,
    flags=ASKING,
    categories=CONNECTION,
    each=DESCRIBED_STEPS,
    steps=ALL_STEPS,
)
def docs(session: RespSession, args: list[bytes]) -> Reply:
    commands = session.hub.table
    found = [commands.get(name) for name in args] if args else list(commands)
    return {entry.name: _documented(entry) for entry in found if entry is not None}


@table.command("command|list", -2, flags=ASKING, categories=CONNECTION, steps=ALL_STEPS)
def list_(session: RespSession, args: list[bytes]) -> Reply:
    entries = _all(session.hub.table)
    if args:
        if len(args) != 3 or args[0].upper() != b"FILTERBY":
            raise CommandError("ERR syntax error")
        entries = filter(_filter(session, args[1].upper(), args[2]), entries)
    return [entry.name for entry in entries]


@table.command("command|getkeys", -3, flags=ASKING, categories=CONNECTION)
def getkeys(session: RespSession, args: list[bytes]) -> Reply:
    commands = session.hub.table
    entry = commands.get(args[0])
    if entry is not None and entry.run is None and len(args) > 1:
        entry = entry.subcommands.get(args[1].upper())
    if entry is None:
        raise CommandError("ERR Invalid command specified")
    # A sharded channel leads to a node as a key does, but is none.
    if not (any(entry.keys) or entry.find_keys) or "pubsub" in entry.flags:
        raise CommandError("ERR The command has no key arguments")
    if not entry.accepts(len(args)):
        raise CommandError("ERR Invalid number of arguments specified for command")
    return list(keys_of(entry, args))


@table.command("command|help", 2, flags=ASKING, categories=CONNECTION, steps=HELP_STEPS)
def help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    All commands: their arity, flags, keys and categories.",
        "COUNT",
        "    How many commands there are.",
        "DOCS [<name> ...]",
        "    To which group these commands, or all, belong.",
        "GETKEYS <command> [<arg> ...]",
        "    The keys of a command.",
        "INFO [<name> ...]",
        "    As without a subcommand, of these commands.",
        "LIST [FILTERBY (MODULE <name> | ACLCAT <category> | PATTERN <pattern>)]",
        "    The names of all commands and subcommands, or of some.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]


# RESP-22: what clients and tools read of a command.
def described(entry: CommandEntry) -> list[Reply]:
    """An entry in ten items. Tips and key specifications are left empty: clients make do with
    the places of the keys."""
    return [
        entry.name,
        entry.arity,
        Flags(entry.flags),
        *entry.keys,
        Flags("@" + category for category in entry.categories),
        Flags(),
        Flags(),
        [described(part) for part in entry.subcommands.values()],
    ]


def _documented(entry: CommandEntry) -> Reply:
    found = [GROUPS[category] for category in entry.categories if category in GROUPS]
    documented: dict[str, Reply] = {
        "summary": "",
        "since": VERSION,
        "group": found[0] if found else "server",
    }
    if entry.subcommands:
        parts = entry.subcommands.values()
        documented["subcommands"] = {part.name: _documented(part) for part in parts}
    return documented


def _all(commands: CommandTable) -> Iterator[CommandEntry]:
    for entry in commands:
        yield entry
        yield from entry.subcommands.values()


def _filter(session: RespSession, kind: bytes, value: bytes) -> Filter:
    match kind:
        case b"MODULE":
            return lambda entry: False
        case b"ACLCAT":
            category = text_of(value.lower())
            return lambda entry: category in entry.categories
        case b"PATTERN":
            glob = glob_of(session, value.lower())
            return lambda entry: glob.matches(entry.name.encode())
    raise CommandError("ERR syntax error")


# For those who test clients and servers.


BIG = b"1234567999999999999999999999999999999"
ATTRIBUTE = b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n"
NUMBERS = b":0\r\n:1\r\n:2\r\n"
BOOLEANS = b":0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n"

SAMPLES: dict[int, dict[bytes, Reply]] = {
    2: {
        b"string": b"Hello World",
        b"integer": 12345,
        b"double": 3.141,
        b"bignum": BIG,
        b"null": None,
        b"array": [0, 1, 2],
        b"set": [0, 1, 2],
        b"map": [0, 0, 1, 1, 2, 0],
        b"attrib": b"Some real reply following the attribute",
        b"push": CommandError("ERR RESP2 is not supported by this command"),
        b"verbatim": Verbatim("This is a verbatim\nstring"),
        b"true": True,
        b"false": False,
    }
}
SAMPLES[3] = SAMPLES[2] | {
    b"bignum": Encoded(b"(%b\r\n" % BIG),
    b"set": Encoded(b"~3\r\n" + NUMBERS),
    b"map": Encoded(b"%3\r\n" + BOOLEANS),
    b"attrib": Several((Encoded(ATTRIBUTE), b"Some real reply following the attribute")),
    b"push": Several(
        (PushReply(("server-cpu-usage", 42)), b"Some real reply following the push reply")
    ),
}
"""A reply of each type of the protocol, by its version."""


@table.command("debug|protocol", 3, flags=ADMIN, categories=DANGEROUS)
def protocol(session: RespSession, args: list[bytes]) -> Reply:
    samples = SAMPLES[session.protocol]
    name = args[0].lower()
    if name not in samples:
        raise CommandError(
            "ERR Wrong protocol type name. Please use one of the following: "
            + "|".join(map(text_of, samples))
        )
    return samples[name]


@table.command(
    "function|flush", -2, flags=("write", "noscript"), categories=("write", "slow", "scripting")
)
def flush(session: RespSession, args: list[bytes]) -> Reply:
    if len(args) > 1 or (args and args[0].upper() not in (b"SYNC", b"ASYNC")):
        raise CommandError("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    return OK


def _always(answer: Reply) -> Handler:
    return lambda session, args: answer


for name, arity, answer in (
    ("debug|log", 3, OK),
    ("slowlog|get", -2, []),
    ("slowlog|len", 2, 0),
    ("slowlog|reset", 2, OK),
    ("latency|latest", 2, []),
    ("latency|history", 3, []),
    ("latency|reset", -2, 0),
):
    table.command(name, arity, flags=ADMIN, categories=DANGEROUS)(_always(answer))
HELP = {
    "debug": (
        "LOG <message>",
        "    Accepted, without effect.",
        "PROTOCOL <type>",
        "    A reply of this type: STRING, INTEGER, DOUBLE, NULL, ARRAY, SET, MAP, ATTRIB, PUSH,",
        "    VERBATIM, TRUE, FALSE or BIGNUM.",
    ),
    "slowlog": (
        "GET [<count>]",
        "    Empty: which commands were slow is not recorded.",
        "LEN",
        "    How many are recorded: none.",
        "RESET",
        "    Accepted, without effect.",
    ),
    "latency": (
        "HISTORY <event>",
        "    Empty: latencies are not recorded. The metrics of the router have them.",
        "LATEST",
        "    Empty, too.",
        "RESET [<event> ...]",
        "    Forget events, and say how many: none.",
    ),
    "function": (
        "FLUSH [ASYNC|SYNC]",
        "    Accepted: there are no functions.",
        "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
        "    Empty.",
    ),
}
for name, lines in HELP.items():
    head = f"{name.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    whole = (head, *lines, "HELP", "    This list.")
    table.command(f"{name}|help", 2, flags=ASKING, categories=("slow",), steps=HELP_STEPS)(
        _always([Simple(line) for line in whole])
    )
table.command("function|list", -2, flags=("noscript",), categories=("slow", "scripting"))(
    _always([])
)
