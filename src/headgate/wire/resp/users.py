"""Who may do what: ACL, and the check that comes before a command is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headgate.core.access import User
from headgate.core.facts import AccessDenied
from headgate.errors import LimitReached
from headgate.wire.resp.numbers import integer
from headgate.wire.resp.replies import OK, CommandError, Reply, Simple, text_of
from headgate.wire.resp.slots import keys_of
from headgate.wire.resp.table import Entry, Table

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = Table()

CATEGORIES = (
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
)
"""All of Redis, so that rules written for it are understood; some have no command here."""

CHANNELS = {"publish": 1, "spublish": 1, "subscribe": None, "ssubscribe": None, "psubscribe": None}
"""The commands that use channels, and how many of their arguments are one; all if it is none. Who
unsubscribes may name what it likes."""
UNSUBSCRIBING = frozenset(("unsubscribe", "sunsubscribe", "punsubscribe"))

REASON = "access rules changed"

ASKING = ("noscript", "loading", "stale")
ADMIN = ("admin", *ASKING)
SLOW = ("slow",)
DANGEROUS = ("admin", "slow", "dangerous")


class Denial(NamedTuple):
    """What a user may not use."""

    kind: str
    """``command``, ``key`` or ``channel``."""
    name: bytes


def check_access(session: RespSession, user: User, entry: Entry, command: list[bytes]) -> None:
    """Refuse what the user's rules do not allow: the command first, then its keys, then its
    channels. One name that is not allowed refuses the whole command."""
    denial = _denial(user, entry, command)
    if denial is None:
        return
    shell = session.hub.shell
    shell.announce([AccessDenied(shell.clock(), session.id, user.name, entry.name)])
    if denial.kind == "command":
        raise CommandError(f"NOPERM this user has no permissions to run the '{entry.name}' command")
    raise CommandError(
        f"NOPERM this user has no permissions to access one of the {denial.kind}s used as arguments"
    )


def _denial(user: User, entry: Entry, command: list[bytes]) -> Denial | None:
    if not user.may_run(entry.name, entry.categories):
        return Denial("command", entry.name.encode())
    if entry.name in CHANNELS:
        may_use = user.may_use_pattern if entry.name == "psubscribe" else user.may_use_channel
        count = CHANNELS[entry.name]
        names = command[1:] if count is None else command[1 : 1 + count]
        return next((Denial("channel", name) for name in names if not may_use(name)), None)
    if entry.name in UNSUBSCRIBING:
        return None
    keys = keys_of(entry, command)
    return next((Denial("key", key) for key in keys if not user.may_use_key(key)), None)


# Whoami is first: what has subcommands takes its categories from the first of them.


@table.command("acl|whoami", 2, flags=ASKING, categories=SLOW)
def whoami(session: RespSession, args: list[bytes]) -> Reply:
    assert session.user is not None, "asked by somebody"
    return session.user.name


@table.command("acl|cat", -2, flags=ASKING, categories=SLOW)
def cat(session: RespSession, args: list[bytes]) -> Reply:
    if not args:
        return list(CATEGORIES)
    _at_most_one("CAT", args)
    category = text_of(args[0]).lower()
    if category not in CATEGORIES:
        raise CommandError(f"ERR Unknown category '{text_of(args[0])}'")
    return [entry.name for entry in _runnable(session.hub.table) if category in entry.categories]


@table.command("acl|list", 2, flags=ADMIN, categories=DANGEROUS)
def list_users(session: RespSession, args: list[bytes]) -> Reply:
    return [bytes(user) for user in session.hub.access.users()]


@table.command("acl|users", 2, flags=ADMIN, categories=DANGEROUS)
def users(session: RespSession, args: list[bytes]) -> Reply:
    return [user.name for user in session.hub.access.users()]


@table.command("acl|getuser", 3, flags=ADMIN, categories=DANGEROUS)
def getuser(session: RespSession, args: list[bytes]) -> Reply:
    user = session.hub.access.get(args[0])
    if user is None:
        return None
    rules = user.rules
    return {
        "flags": list(rules.flags),
        "passwords": list(rules.passwords),
        "commands": rules.command_text,
        "keys": bytes(rules.keys),
        "channels": bytes(rules.channels),
        "selectors": [],
    }


@table.command("acl|setuser", -3, flags=ADMIN, categories=DANGEROUS)
def setuser(session: RespSession, args: list[bytes]) -> Reply:
    longest = session.hub.broker.limits.name_bytes
    if any(len(word) > longest for word in args):
        raise LimitReached("name_bytes", longest)
    hub = session.hub
    known = {f"@{category}" for category in CATEGORIES}
    for entry in hub.table:
        known |= {entry.name, *(part.name for part in entry.subcommands.values())}
    user = hub.access.set_user(args[0], args[1:], known)
    for other in list(hub.sessions.values()):
        if other.user is user and not _may_keep(user, other):
            _close(session, other)
    return OK


@table.command("acl|deluser", -3, flags=ADMIN, categories=DANGEROUS)
def deluser(session: RespSession, args: list[bytes]) -> Reply:
    gone = session.hub.access.delete_users(args)
    for other in list(session.hub.sessions.values()):
        if other.user in gone:
            _close(session, other)
    return len(gone)


@table.command("acl|dryrun", -4, flags=ADMIN, categories=DANGEROUS)
def dryrun(session: RespSession, args: list[bytes]) -> Reply:
    name, *command = args
    user = session.hub.access.get(name)
    if user is None:
        raise CommandError(f"ERR User '{text_of(name)}' not found")
    entry = session.hub.table.get(command[0])
    if entry is not None and entry.run is None and len(command) > 1:
        entry = entry.subcommands.get(command[1].upper())
    if entry is None:
        raise CommandError(f"ERR Command '{text_of(command[0])}' not found")
    if not entry.accepts(len(command)):
        raise CommandError(f"ERR wrong number of arguments for '{entry.name}' command")
    denial = _denial(user, entry, command)
    if denial is None:
        return OK
    named = f"'{text_of(denial.name)}' {denial.kind}"
    verb = "run" if denial.kind == "command" else "access"
    return f"This user has no permissions to {verb} the {named}"


@table.command("acl|log", -2, flags=ADMIN, categories=DANGEROUS)
def log(session: RespSession, args: list[bytes]) -> Reply:
    """Always empty: what was denied is a fact, and facts have their own log."""
    _at_most_one("LOG", args)
    if args and args[0].upper() == b"RESET":
        return OK
    if args:
        integer(args[0])
    return []


@table.command("acl|help", 2, flags=("loading", "stale"), categories=SLOW)
def help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CAT [<category>]",
        "    The categories, or the commands of one.",
        "DELUSER <username> [<username> ...]",
        "    Forget users, and close their connections.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Whether a user may run a command, without running it.",
        "GETUSER <username>",
        "    The rules of a user.",
        "LIST",
        "    All users, each with the rules that would make it.",
        "LOG [<count> | RESET]",
        "    Empty: what was denied is in the log of the router.",
        "SETUSER <username> [<rule> ...]",
        "    Make a user, or change one.",
        "USERS",
        "    The names of all users.",
        "WHOAMI",
        "    The user of this connection.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]


def _runnable(table: Table) -> list[Entry]:
    """All that can be run, subcommands instead of what has them."""
    return [part for entry in table for part in (entry.subcommands.values() or (entry,))]


def _may_keep(user: User, session: RespSession) -> bool:
    """Whether the user's rules allow what a session is subscribed to."""
    mine = session.interests
    return all(map(user.may_use_channel, (*mine.exact, *mine.sharded))) and all(
        map(user.may_use_pattern, mine.pattern)
    )


def _close(session: RespSession, other: RespSession) -> None:
    """End a session whose user lost something. If it is the one that asked, it still gets its
    answer, but nothing that it sent after this is carried out."""
    if other is not session:
        other.close(REASON)
        return
    session.is_closing = True

    def close() -> None:
        if session.id in session.hub.sessions:
            session.close(REASON)

    session.hub.shell.soon(close)


def _at_most_one(name: str, args: list[bytes]) -> None:
    if len(args) > 1:
        raise CommandError(
            f"ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP."
        )
