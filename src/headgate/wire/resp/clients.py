"""CLIENT: what a session says about itself, and what it may ask about the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from headgate.core.names import SessionId
from headgate.wire.resp.answers import Answers
from headgate.wire.resp.greeting import DEFAULT_USER, checked_name
from headgate.wire.resp.numbers import integer
from headgate.wire.resp.replies import (
    NOTHING,
    OK,
    CommandError,
    Flags,
    Reply,
    Simple,
    Verbatim,
    encode,
    text_of,
)
from headgate.wire.resp.session import RespSession
from headgate.wire.resp.table import Table

table = Table()

ASKING = ("noscript", "loading", "stale")
ADMIN = ("admin", *ASKING)
CONNECTION = ("slow", "connection")
DANGEROUS = ("admin", "slow", "dangerous", "connection")

SYNTAX = "ERR syntax error"
KILLED = "killed by a client"
SWITCH = frozenset((b"ON", b"OFF"))

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
    option, text = text_of(args[0]), args[1]
    if option.lower() not in session.library:
        raise CommandError(f"ERR Unrecognized option '{option}'")
    session.library[option.lower()] = checked_name(session, text, option)
    return OK


# Who is there.


@table.command("client|info", 2, flags=ASKING, categories=CONNECTION)
def info(session: RespSession, args: list[bytes]) -> Reply:
    return Verbatim(line(session, session.hub.shell.clock()) + "\n")


@table.command("client|list", -2, flags=ADMIN, categories=DANGEROUS)
def list_(session: RespSession, args: list[bytes]) -> Reply:
    sessions: Iterable[RespSession] = session.hub.sessions.values()
    if args:
        option, *rest = args
        if option.upper() == b"TYPE" and len(rest) == 1:
            is_wanted = _of_type(rest[0])
            sessions = [each for each in sessions if is_wanted(each)]
        elif option.upper() == b"ID" and rest:
            ids = [SessionId(integer(id, "ERR Invalid client ID")) for id in rest]
            known = session.hub.sessions
            sessions = [known[id] for id in ids if id in known]
        else:
            raise CommandError(SYNTAX)
    now = session.hub.shell.clock()
    return Verbatim("".join([line(each, now) + "\n" for each in sessions]))


def line(session: RespSession, now: float) -> str:
    """All about a session, as tools for Redis expect it. What there is no such thing of is 0."""
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
    """Whether it is a monitor, a subscriber, in a transaction, and waits to publish."""
    found = "O" if session.id in session.hub.monitors else ""
    if session.interests:
        found += "P"
    if session.queued is not None:
        found += "x"
    if session.pending:
        found += "b"
    return found or "N"


def _of_type(name: bytes) -> Filter:
    """Sessions of a type. There are no others than ordinary ones and subscribers."""
    match name.lower():
        case b"normal":
            return lambda session: not session.interests
        case b"pubsub":
            return lambda session: bool(session.interests)
        case b"master" | b"replica" | b"slave":
            return lambda session: False
    raise CommandError(f"ERR Unknown client type '{text_of(name)}'")


# Ending sessions.


@table.command("client|kill", -3, flags=ADMIN, categories=DANGEROUS)
def kill(session: RespSession, args: list[bytes]) -> Reply:
    if len(args) == 1:
        address = text_of(args[0])
        found = [each for each in session.hub.sessions.values() if each.peer == address]
        if not found:
            raise CommandError("ERR No such client")
        return _kill(session, found, OK)
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
    if skip_me:
        filters.append(lambda other: other is not session)
    found = [
        each for each in session.hub.sessions.values() if all(matches(each) for matches in filters)
    ]
    return _kill(session, found, len(found))


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


def _kill(session: RespSession, found: list[RespSession], reply: Reply) -> Reply:
    """End sessions at once: what a stuck one has not taken must not keep it alive. Who ends its
    own is answered first."""
    for other in found:
        if other is not session:
            other.close(KILLED, at_once=True)
    if session not in found:
        return reply
    session.out.append(encode(reply, session.protocol))
    session.close(KILLED)
    return NOTHING


# How a session wants to be treated.


@table.command("client|reply", 3, flags=ASKING, categories=CONNECTION)
def reply(session: RespSession, args: list[bytes]) -> Reply:
    match args[0].upper():
        case b"ON":
            session.answers = Answers.ON
            return OK
        case b"OFF":
            session.answers = Answers.OFF
            return NOTHING
        case b"SKIP":
            if session.answers is not Answers.OFF:
                session.answers = Answers.SKIP
            return NOTHING
    raise CommandError(SYNTAX)


@table.command("client|no-evict", 3, flags=ADMIN, categories=DANGEROUS)
@table.command("client|no-touch", 3, flags=ASKING, categories=CONNECTION)
def switch(session: RespSession, args: list[bytes]) -> Reply:
    """Nobody is evicted for the memory it uses, and no key is remembered as used."""
    if args[0].upper() not in SWITCH:
        raise CommandError(SYNTAX)
    return OK


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


@table.command("client|help", 2, flags=("loading", "stale"), categories=CONNECTION)
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
        "SETNAME <name>",
        "    Name this session.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]
