"""CLIENT: what a session says about itself, and what it may ask about the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from headgate.core.model.ids import SessionId
from headgate.core.redis.acl import DEFAULT_USER
from headgate.errors import LimitReached
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import (
    NOTHING,
    OK,
    CommandError,
    Flags,
    Parts,
    Reply,
    Simple,
    Verbatim,
    text_of,
)
from headgate.wire.resp.command_cost import HELP_STEPS, portions
from headgate.wire.resp.commands.connection import checked_name
from headgate.wire.resp.commands.table import CommandTable, quoted
from headgate.wire.resp.reply_mode import ReplyMode
from headgate.wire.resp.session import RespSession
from headgate.wire.resp.streams.awaited import UNBLOCKED

table = CommandTable()

ASKING = ("noscript", "loading", "stale")
ADMIN = ("admin", *ASKING)
CONNECTION = ("slow", "connection")
DANGEROUS = ("admin", "slow", "dangerous", "connection")

SYNTAX = "ERR syntax error"
KILLED = "killed by a client"
SWITCH = frozenset((b"ON", b"OFF"))
LINE_STEPS = 10
"""Of a session that is described."""
FILTERS = 64
"""Options of one CLIENT KILL: each session is compared with all of them."""
KILLED_AT_ONCE = 16
"""Sessions that are looked at, and perhaps ended, in a row."""

Filter: TypeAlias = Callable[[RespSession], bool]


@table.command("client|id", 2, flags=ASKING, categories=CONNECTION)
def id(session: RespSession, args: list[bytes]) -> Reply:
    return session.id


@table.command("client|getname", 2, flags=ASKING, categories=CONNECTION)
def getname(session: RespSession, args: list[bytes]) -> Reply:
    return session.name or None


@table.command("client|setname", 3, flags=ASKING, categories=CONNECTION)
def setname(session: RespSession, args: list[bytes]) -> Reply:
    session.rename(checked_name(session, args[0]))
    return OK


@table.command("client|setinfo", 4, flags=ASKING, categories=CONNECTION)
def setinfo(session: RespSession, args: list[bytes]) -> Reply:
    option, text = quoted(args[0]), args[1]
    if option.lower() not in session.library:
        raise CommandError(f"ERR Unrecognized option '{option}'")
    session.library[option.lower()] = checked_name(session, text, option)
    alive = session.hub.broker.sessions.get(session.id)
    if alive is not None:
        alive.agent = " ".join(text_of(part) for part in session.library.values() if part)
    return OK


# Who is there.


@table.command("client|info", 2, flags=ASKING, categories=CONNECTION, steps=LINE_STEPS)
def info(session: RespSession, args: list[bytes]) -> Reply:
    return Verbatim(line(session, session.hub.shell.clock()) + "\n")


def _all_steps(session: RespSession, args: list[bytes]) -> int:
    return LINE_STEPS * len(session.hub.sessions)


@table.command(
    "client|list", -2, flags=ADMIN, categories=DANGEROUS, steps=_all_steps, is_sliced=True
)
def list_(session: RespSession, args: list[bytes]) -> Reply:
    known = session.hub.sessions
    if not args:
        return Parts(_lines(session, portions(list(known.values()))))
    option, *rest = args
    if option.upper() == b"TYPE" and len(rest) == 1:
        return Parts(_lines(session, portions(list(known.values())), _of_type(rest[0])))
    if option.upper() == b"ID" and rest:
        return Parts(_lines(session, _named(session, rest)))
    raise CommandError(SYNTAX)


def _named(session: RespSession, texts: list[bytes]) -> Iterator[list[RespSession]]:
    """The sessions with these ids, each once."""
    known = session.hub.sessions
    for portion in portions(list(dict.fromkeys(texts))):
        ids = [SessionId(integer(id, "ERR Invalid client ID")) for id in portion]
        yield [known[id] for id in ids if id in known]


def _lines(
    session: RespSession,
    sessions: Iterator[Sequence[RespSession]],
    is_wanted: Filter | None = None,
) -> Iterator[Reply]:
    """A line for each of these sessions that is wanted and still there, as one text."""
    hub, most = session.hub, session.hub.broker.limits.reply_bytes
    lines: list[str] = []
    size = 0
    for portion in sessions:
        now = hub.shell.clock()
        for each in portion:
            if each.id in hub.sessions and (is_wanted is None or is_wanted(each)):
                lines.append(line(each, now) + "\n")
                size += len(lines[-1])
        if size > most:
            raise LimitReached("reply_bytes", most)
        yield NOTHING
    yield Verbatim("".join(lines))


def line(session: RespSession, now: float) -> str:
    """All about a session, as tools for Redis expect it. Fields that have no meaning here are 0."""
    hub, interests, library = session.hub, session.interests, session.library
    alive = hub.broker.sessions.get(session.id)
    waiting, waiting_bytes = (len(alive.mailbox), alive.mailbox.bytes) if alive else (0, 0)
    multi = -1 if session.queued is None else len(session.queued)
    user = text_of(DEFAULT_USER) if session.user is None else session.user.name
    held = session.requests.held
    return (
        f"id={session.id} addr={session.peer} laddr={session.local} fd=-1"
        f" name={text_of(session.name)} age={int(now - session.since)} idle=0"
        f" flags={flags(session)} db={session.db} sub={len(interests.exact)}"
        f" psub={len(interests.pattern)} ssub={len(interests.sharded)} multi={multi}"
        f" qbuf={held} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0"
        f" oll={waiting} omem={waiting_bytes} tot-mem={held + waiting_bytes} events=r"
        f" cmd={session.last_command or 'NULL'} user={user} redir=-1 resp={session.protocol}"
        f" lib-name={text_of(library['lib-name'])} lib-ver={text_of(library['lib-ver'])}"
    )


def flags(session: RespSession) -> str:
    """Whether it is a monitor, a subscriber, in a transaction, and waits to publish or to read."""
    found = "O" if session.id in session.hub.monitors else ""
    if session.interests:
        found += "P"
    if session.queued is not None:
        found += "x"
    if session.pending or session.waits_for_messages:
        found += "b"
    return found or "N"


def _of_type(name: bytes) -> Filter:
    """Sessions of a type. There are no others than ordinary ones and subscribers."""
    match name.lower():
        case b"normal":
            return lambda session: not session.interests
        case b"pubsub":
            # RESP-19: a subscriber is who has subscriptions now.
            return lambda session: bool(session.interests)
        case b"master" | b"replica" | b"slave":
            return lambda session: False
    raise CommandError(f"ERR Unknown client type '{text_of(name)}'")


# Ending sessions.


@table.command(
    "client|kill", -3, flags=ADMIN, categories=DANGEROUS, steps=_all_steps, is_sliced=True
)
def kill(session: RespSession, args: list[bytes]) -> Reply:
    if len(args) == 1:
        address = text_of(args[0])
        return Parts(_kill(session, [lambda other: other.peer == address], is_one=True))
    if len(args) % 2:
        raise CommandError(SYNTAX)
    filters: list[Filter] = []
    skip_me = True
    for option, value in zip(args[::2], args[1::2], strict=True):
        if option.upper() == b"SKIPME":
            if value.upper() not in (b"YES", b"NO"):
                raise CommandError(SYNTAX)
            skip_me = value.upper() == b"YES"
        else:
            filters.append(_filter(session, option.upper(), value))
    if len(filters) > FILTERS:
        raise CommandError(f"ERR more than {FILTERS} options")
    if skip_me:
        filters.append(lambda other: other is not session)
    return Parts(_kill(session, filters))


def _filter(session: RespSession, option: bytes, value: bytes) -> Filter:
    text = text_of(value)
    match option:
        case b"ID":
            id = _positive(value, "ERR client-id should be greater than 0")
            return lambda other: other.id == id
        case b"ADDR":
            return lambda other: other.peer == text
        case b"LADDR":
            return lambda other: other.local == text
        case b"TYPE":
            return _of_type(value)
        case b"USER":
            user = session.hub.access.get(value)
            if user is None:
                raise CommandError(f"ERR No such user '{text}'")
            return lambda other: other.user is user
        case b"MAXAGE":
            integer(value, "ERR maxage is not an integer or out of range")
            age = _positive(value, "ERR maxage should be greater than 0")
            now = session.hub.shell.clock()
            return lambda other: now - other.since >= age
    raise CommandError(SYNTAX)


def _positive(text: bytes, error: str) -> int:
    number = integer(text, error)
    if number < 1:
        raise CommandError(error)
    return number


def _kill(session: RespSession, filters: list[Filter], *, is_one: bool = False) -> Iterator[Reply]:
    """End sessions at once: output that a stuck one has not taken must not keep it alive. A client
    that ends itself is answered first."""
    known = session.hub.sessions
    count = 0
    is_mine = False
    for number, other in enumerate(list(known.values())):
        if number % KILLED_AT_ONCE == 0:
            yield NOTHING
        if other.id in known and all(matches(other) for matches in filters):
            count += 1
            if other is session:
                is_mine = True
            else:
                # RESP-20: ended at once, whatever it has not taken.
                other.close(KILLED, at_once=True)
    if is_one and not count:
        raise CommandError("ERR No such client")
    yield OK if is_one else count
    if is_mine and not session.is_executing:
        session.close(KILLED)
    elif is_mine:
        session.is_closing = True
        session.hub.shell.soon(partial(session.close, KILLED))


# How a session wants to be treated.


@table.command("client|reply", 3, flags=ASKING, categories=CONNECTION)
def reply(session: RespSession, args: list[bytes]) -> Reply:
    match args[0].upper():
        case b"ON":
            if session.answers is not ReplyMode.SKIP_NEXT:
                session.answers = ReplyMode.ON
            return OK
        case b"OFF":
            session.answers = ReplyMode.OFF
            return NOTHING
        case b"SKIP":
            if session.answers is not ReplyMode.OFF:
                session.answers = ReplyMode.SKIP_NEXT
            return NOTHING
    raise CommandError(SYNTAX)


@table.command("client|no-evict", 3, flags=ADMIN, categories=DANGEROUS)
@table.command("client|no-touch", 3, flags=ASKING, categories=CONNECTION)
def switch(session: RespSession, args: list[bytes]) -> Reply:
    """Say OK and change nothing: nobody is evicted for the memory it uses, and no key is remembered
    as used."""
    if args[0].upper() not in SWITCH:
        raise CommandError(SYNTAX)
    return OK


@table.command("client|unblock", -3, flags=ADMIN, categories=DANGEROUS)
def unblock(session: RespSession, args: list[bytes]) -> Reply:
    reason = args[1].upper() if len(args) == 2 else b"TIMEOUT"
    if len(args) > 2 or reason not in (b"TIMEOUT", b"ERROR"):
        raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    other = session.hub.sessions.get(SessionId(integer(args[0])))
    awaited = None if other is None else other.awaited
    error = CommandError(UNBLOCKED) if reason == b"ERROR" else None
    return int(awaited is not None and awaited.unblock(error))


@table.command("client|pause", -3, flags=ADMIN, categories=DANGEROUS)
def pause(session: RespSession, args: list[bytes]) -> Reply:
    """Accepted for the sake of tools; nothing is paused."""
    if integer(args[0], "ERR timeout is not an integer or out of range") < 0:
        raise CommandError("ERR timeout is negative")
    if len(args) > 2:
        raise CommandError(SYNTAX)
    if len(args) == 2 and args[1].upper() not in (b"WRITE", b"ALL"):
        raise CommandError("ERR CLIENT PAUSE mode must be WRITE or ALL")
    return OK


@table.command("client|unpause", 2, flags=ADMIN, categories=DANGEROUS)
def unpause(session: RespSession, args: list[bytes]) -> Reply:
    return OK


# Tracking of keys, which there is none of.


@table.command("client|getredir", 2, flags=ASKING, categories=CONNECTION)
def getredir(session: RespSession, args: list[bytes]) -> Reply:
    return -1


@table.command("client|tracking", -3, flags=ASKING, categories=CONNECTION)
def tracking(session: RespSession, args: list[bytes]) -> Reply:
    if args[0].upper() not in SWITCH:
        raise CommandError(SYNTAX)
    if args[0].upper() == b"ON":
        raise CommandError("ERR client side caching is not supported")
    return OK


@table.command("client|trackinginfo", 2, flags=ASKING, categories=CONNECTION)
def trackinginfo(session: RespSession, args: list[bytes]) -> Reply:
    return {"flags": Flags(("off",)), "redirect": -1, "prefixes": []}


@table.command("client|caching", 3, flags=ASKING, categories=CONNECTION)
def caching(session: RespSession, args: list[bytes]) -> Reply:
    raise CommandError(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or"
        " OPTOUT mode enabled"
    )


@table.command(
    "client|help", 2, flags=("loading", "stale"), categories=CONNECTION, steps=HELP_STEPS
)
def help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GETNAME",
        "    The name of this session.",
        "ID",
        "    The number of this session.",
        "INFO",
        "    All about this session.",
        "KILL <ip:port>",
        "    End the session from this address.",
        "KILL <option> <value> [<option> <value> ...]",
        "    End the sessions that all these options describe, and say how many: ID <id>,",
        "    ADDR <ip:port>, LADDR <ip:port>, TYPE (NORMAL|PUBSUB), USER <name>,",
        "    MAXAGE <seconds>, SKIPME (YES|NO).",
        "LIST [TYPE (NORMAL|PUBSUB) | ID <id> ...]",
        "    All about these sessions, one a line.",
        "NO-EVICT (ON|OFF), NO-TOUCH (ON|OFF), PAUSE <timeout>, UNPAUSE",
        "    Accepted, without effect.",
        "REPLY (ON|OFF|SKIP)",
        "    Whether commands of this session are answered; SKIP is for the next one.",
        "SETINFO (LIB-NAME|LIB-VER) <text>",
        "    Say which library is used.",
        "UNBLOCK <id> [TIMEOUT|ERROR]",
        "    Have a session wait no longer for entries of a stream.",
        "SETNAME <name>",
        "    Name this session.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]
