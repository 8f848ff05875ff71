"""Who is there: HELLO, AUTH, PING, ECHO, SELECT, RESET, QUIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.errors import LimitReached
from headgate.wire.resp.answers import Answers
from headgate.wire.resp.forms import FORMS
from headgate.wire.resp.numbers import integer
from headgate.wire.resp.replies import NOTHING, OK, CommandError, Reply, Simple, encode, text_of
from headgate.wire.resp.table import Table

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = Table()

VERSION = "7.2.4"
"""The Redis version whose behaviour clients may expect."""
DATABASES = 16
INT32 = range(-(2**31), 2**31)
DEFAULT_USER = b"default"

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
        if protocol not in FORMS:
            raise CommandError("NOPROTO unsupported protocol version")
    user, name = session.user, None
    options = args[1:]
    while options:
        word = options[0].upper()
        if word == b"AUTH" and len(options) >= 3:
            user = session.hub.access.authenticate(options[1], options[2])
            if user is None:
                raise CommandError(WRONG_PASSWORD)
            options = options[3:]
        elif word == b"SETNAME" and len(options) >= 2:
            name = checked_name(session, options[1])
            options = options[2:]
        else:
            raise CommandError(f"ERR Syntax error in HELLO option '{text_of(options[0])}'")
    if user is None:
        raise CommandError(HELLO_NEEDS_AUTH)
    session.become(user)
    if name is not None:
        session.rename(name)
    session.speak(protocol)
    return {
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
    user = access.authenticate(name, password)
    if user is None:
        raise CommandError(WRONG_PASSWORD)
    session.become(user)
    return OK


@table.command("ping", -1, categories=CONNECTION)
def ping(session: RespSession, args: list[bytes]) -> Reply:
    if len(args) > 1:
        raise CommandError("ERR wrong number of arguments for 'ping' command")
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


@table.command("quit", -1, flags=EARLY, categories=CONNECTION)
def quit(session: RespSession, args: list[bytes]) -> Reply:
    session.out.append(encode(OK, session.protocol))
    session.close("quit")
    return NOTHING


@table.command("reset", 1, flags=EARLY, categories=CONNECTION)
def reset(session: RespSession, args: list[bytes]) -> Reply:
    hub = session.hub
    hub.channels.disconnect(session.id)
    hub.wake_all()
    hub.monitors.pop(session.id, None)
    is_skipped = session.answers is Answers.SKIP
    session.start_anew()
    if is_skipped:
        session.answers = Answers.SKIP
    return Simple("RESET")


def checked_name(session: RespSession, name: bytes, what: str = "Client names") -> bytes:
    """A name that can stand in a list of clients."""
    most = session.hub.broker.limits.client_name_bytes
    if len(name) > most:
        raise LimitReached("client_name_bytes", most)
    if any(byte < 33 or byte > 126 for byte in name):
        raise CommandError(f"ERR {what} cannot contain spaces, newlines or special characters.")
    return name
