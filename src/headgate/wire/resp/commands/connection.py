"""Commands on the connection: HELLO, AUTH, PING, ECHO, SELECT, RESET, QUIT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headgate.core.redis.acl import DEFAULT_USER, User
from headgate.core.redis.keyspace import DATABASES
from headgate.errors import LimitReached
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.message_frames import FORMS
from headgate.wire.resp.codec.replies import (
    NOTHING,
    OK,
    CommandError,
    Parts,
    Reply,
    Simple,
    encode,
    text_of,
)
from headgate.wire.resp.commands.table import CommandTable
from headgate.wire.resp.reply_mode import ReplyMode

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

VERSION = "7.2.4"
"""The Redis version whose behaviour clients may expect."""
INT32 = range(-(2**31), 2**31)

WRONG_PASSWORD = "WRONGPASS invalid username-password pair or user is disabled."
NO_PASSWORD = (
    "ERR AUTH <password> called without any password configured for the default user."
    " Are you sure your configuration is correct?"
)
HELLO_NEEDS_AUTH = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH"
    " <user> <pass> option can be used to authenticate the client and select the RESP protocol"
    " version at the same time"
)
CONNECTION = ("fast", "connection")
EARLY = ("noscript", "loading", "stale", "fast", "no_auth", "allow_busy")


@table.command("hello", -1, flags=EARLY, categories=CONNECTION)
def hello(session: RespSession, args: list[bytes]) -> Reply:
    protocol = session.protocol
    if args:
        protocol = integer(args[0], "ERR Protocol version is not an integer or out of range")
        # RESP-14: refused before anything is changed.
        if protocol not in FORMS:
            raise CommandError("NOPROTO unsupported protocol version")
    user, name = session.user, None
    options = args[1:]
    while options:
        word = options[0].upper()
        if word == b"AUTH" and len(options) >= 3:
            user = authenticate(session, b"HELLO", options[1], options[2])
            options = options[3:]
        elif word == b"SETNAME" and len(options) >= 2:
            name = checked_name(session, options[1])
            options = options[2:]
        else:
            raise CommandError(f"ERR Syntax error in HELLO option '{text_of(options[0])}'")
    # RESP-15: nothing has changed up to here.
    if user is None:
        raise CommandError(HELLO_NEEDS_AUTH)
    session.become(user)
    if name is not None:
        session.rename(name)
    session.speak(protocol)
    return {
        # RESP-13: seven things, as a map or as an array.
        "server": "redis",
        "version": VERSION,
        "proto": protocol,
        "id": session.id,
        "mode": "standalone" if session.hub.cluster is None else "cluster",
        "role": "master",
        "modules": [],
    }


@table.command("auth", -2, flags=EARLY, categories=CONNECTION)
def auth(session: RespSession, args: list[bytes]) -> Reply:
    if len(args) > 2:
        raise CommandError("ERR syntax error")
    access = session.hub.access
    if len(args) == 1 and not access.needs_password:
        raise CommandError(NO_PASSWORD)
    name, password = args if len(args) == 2 else (DEFAULT_USER, args[0])
    session.become(authenticate(session, b"AUTH", name, password))
    return OK


def authenticate(session: RespSession, command: bytes, name: bytes, password: bytes) -> User:
    """The user of this name and password. Failures are noted, and answered later and later; in a
    session that had its share of them nothing more is tried."""
    hub = session.hub
    if session.failures < hub.broker.limits.auth_failures:
        user = hub.access.authenticate(name, password)
        if user is not None:
            return user
    session.failures += 1
    session.delay(hub.logins.note_failure(session, command, name))
    raise CommandError(WRONG_PASSWORD)


@table.command("ping", -1, categories=CONNECTION, while_subscribed=True)
def ping(session: RespSession, args: list[bytes]) -> Reply:
    if len(args) > 1:
        raise CommandError("ERR wrong number of arguments for 'ping' command")
    # RESP-33: the answer looks like a message to who subscribes in RESP2.
    if session.is_subscriber:
        return [b"pong", args[0] if args else b""]
    return args[0] if args else Simple("PONG")


@table.command("echo", 2, categories=CONNECTION)
def echo(session: RespSession, args: list[bytes]) -> Reply:
    return args[0]


@table.command("select", 2, flags=("loading", "stale", "fast"), categories=CONNECTION)
def select(session: RespSession, args: list[bytes]) -> Reply:
    number = integer(args[0])
    if number not in INT32:
        raise CommandError(
            "ERR value is out of range, value must between -2147483648 and 2147483647"
        )
    if session.hub.cluster is not None and number:
        raise CommandError("ERR SELECT is not allowed in cluster mode")
    if not 0 <= number < DATABASES:
        raise CommandError("ERR DB index is out of range")
    session.db = number
    return OK


@table.command(
    "quit", -1, flags=EARLY, categories=CONNECTION, while_subscribed=True, is_queued=False
)
def quit(session: RespSession, args: list[bytes]) -> Reply:
    session.out.append(encode(OK, session.protocol))
    # RESP-24: answered, then ended.
    session.close("quit")
    return NOTHING


@table.command(
    "reset",
    1,
    flags=EARLY,
    categories=CONNECTION,
    is_sliced=True,
    while_subscribed=True,
    is_queued=False,
)
def reset(session: RespSession, args: list[bytes]) -> Reply:
    if session.answers is ReplyMode.OFF:
        session.answers = ReplyMode.ON  # this is answered already
    return Parts(_reset(session))


def _reset(session: RespSession) -> Iterator[Reply]:
    # RESP-25: off everything, without a word about it.
    yield from session.hub.leave_all(session)
    session.hub.monitors.pop(session.id, None)
    session.start_anew()
    yield Simple("RESET")


def checked_name(session: RespSession, name: bytes, what: str = "Client names") -> bytes:
    """A name that can stand in a list of clients."""
    most = session.hub.broker.limits.client_name_bytes
    if len(name) > most:
        raise LimitReached("client_name_bytes", most)
    # RESP-18: a list of clients has blanks between its fields.
    if any(byte < 33 or byte > 126 for byte in name):
        raise CommandError(f"ERR {what} cannot contain spaces, newlines or special characters.")
    return name
