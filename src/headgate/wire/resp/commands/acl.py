"""Commands on users: ACL, and the check that comes before any command is carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headgate.core.facts import AccessDenied
from headgate.core.redis.acl import AccessError, Patterns, User
from headgate.errors import LimitReached
from headgate.wire.resp.codec.integers import integer
from headgate.wire.resp.codec.replies import (
    OK,
    CommandError,
    Parts,
    Reply,
    Several,
    Simple,
    Unordered,
    array_of,
    text_of,
)
from headgate.wire.resp.command_cost import HELP_STEPS, portions, refusal
from headgate.wire.resp.commands.cluster import keys_of
from headgate.wire.resp.commands.table import ChannelUse, CommandEntry, CommandTable, quoted

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

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

REASON = "access rules changed"

CATEGORY_STEPS = 100
"""Of looking through all commands."""

ASKING = ("noscript", "loading", "stale")
ADMIN = ("admin", *ASKING)
SLOW = ("slow",)
DANGEROUS = ("admin", "slow", "dangerous")


USER_STEPS = 6
"""Of a user that is told with its rules."""
RULE_STEPS = 5
"""Of a rule of a user."""
RULE_STEP_BYTES = 2
"""So many bytes of a rule are a step besides."""
SHOWN = 10
"""Entries of the log, if nobody says how many."""
PASSWORD_BITS, PASSWORD_BITS_MAX = 256, 4096

NO_FILE = (
    "ERR This router is not configured to use an ACL file: set acl_file in [listen.resp] and"
    " restart it"
)
UNCHANGED = (
    "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
)


class UserFile(Protocol):
    """Where users are kept."""

    path: str

    def read(self) -> bytes: ...

    def write(self, users: bytes) -> None:
        """All of it, or the file stays as it is."""
        ...


class Denial(NamedTuple):
    """A denial: the command, key or channel that a user may not use."""

    kind: str
    """``command``, ``key`` or ``channel``."""
    name: bytes


def check_access(
    session: RespSession, user: User, entry: CommandEntry, command: list[bytes]
) -> None:
    """Refuse what the user's rules do not allow: the command first, then its keys, then its
    channels. One name that is not allowed refuses the whole command."""
    # RESP-77: one bad name refuses the whole command.
    denial = _denial(session, user, entry, command)
    if denial is None:
        return
    shell = session.hub.shell
    shell.announce([AccessDenied(shell.clock(), session.id, user.name, entry.name)])
    session.hub.logins.note_denial(session, denial.kind, denial.name, user.name)
    if denial.kind == "command":
        raise CommandError(f"NOPERM this user has no permissions to run the '{entry.name}' command")
    raise CommandError(
        f"NOPERM this user has no permissions to access one of the {denial.kind}s used as arguments"
    )


def is_allowed(session: RespSession, entry: CommandEntry, command: list[bytes]) -> bool:
    """Whether a session may run a command now. It does not, so a refusal is not noted."""
    user = session.user
    if user is None or user.is_unrestricted:
        return user is not None
    return _denial(session, user, entry, command) is None


def _denial(
    session: RespSession, user: User, entry: CommandEntry, command: list[bytes]
) -> Denial | None:
    if not user.may_run(entry.name, entry.categories):
        return Denial("command", entry.name.encode())
    # RESP-78: to leave a channel needs no rule.
    if entry.channels is ChannelUse.LEAVES:
        return None
    if entry.channels is not None:
        is_pattern = entry.channels is ChannelUse.PATTERNS
        may_use = user.may_use_pattern if is_pattern else user.may_use_channel
        names = command[1:] if entry.publishes is None else command[1:2]
        if not is_pattern:
            _charge(session, names, user.rules.channels)
        return next((Denial("channel", name) for name in names if not may_use(name)), None)
    keys = keys_of(entry, command)
    _charge(session, keys, user.rules.keys)
    return next((Denial("key", key) for key in keys if not user.may_use_key(key)), None)


def _charge(session: RespSession, names: Sequence[bytes], allowed: Patterns) -> None:
    """Refuse to compare very many names with very many patterns."""
    most = session.hub.broker.limits.command_steps
    if len(names) * allowed.steps > most:
        raise refusal(session, LimitReached("command_steps", most))


# Whoami is first: what has subcommands takes its categories from the first of them.


@table.command("acl|whoami", 2, flags=ASKING, categories=SLOW)
def whoami(session: RespSession, args: list[bytes]) -> Reply:
    assert session.user is not None, "asked by somebody"
    return session.user.name


@table.command("acl|cat", -2, flags=ASKING, categories=SLOW, steps=CATEGORY_STEPS)
def cat(session: RespSession, args: list[bytes]) -> Reply:
    if not args:
        return list(CATEGORIES)
    _at_most_one("CAT", args)
    named = quoted(args[0])
    category = named.lower()
    if category not in CATEGORIES:
        raise CommandError(f"ERR Unknown category '{named}'")
    return [entry.name for entry in _runnable(session.hub.table) if category in entry.categories]


def _steps_of_users(session: RespSession, args: list[bytes]) -> int:
    return USER_STEPS * len(session.hub.access.users())


def _steps_of_rules(session: RespSession, args: list[bytes]) -> int:
    """A pattern is taken apart, which takes as long as it is."""
    return sum(map(len, args)) // RULE_STEP_BYTES


@table.command(
    "acl|list",
    2,
    flags=ADMIN,
    categories=DANGEROUS,
    steps=_steps_of_users,
    is_sliced=True,
)
def list_users(session: RespSession, args: list[bytes]) -> Reply:
    return Parts(_listed_users(list(session.hub.access.users())))


def _listed_users(users: list[User]) -> Iterator[Reply]:
    yield array_of(len(users))
    for some in portions(users):
        yield Several(bytes(user) for user in some)


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
        "flags": Unordered(rules.flags),
        "passwords": list(rules.passwords),
        "commands": rules.command_text,
        "keys": bytes(rules.keys),
        "channels": bytes(rules.channels),
        "selectors": [],
    }


@table.command(
    "acl|setuser",
    -3,
    flags=ADMIN,
    categories=DANGEROUS,
    each=RULE_STEPS,
    steps=_steps_of_rules,
)
def setuser(session: RespSession, args: list[bytes]) -> Reply:
    longest = session.hub.broker.limits.name_bytes
    if any(len(word) > longest for word in args):
        raise LimitReached("name_bytes", longest)
    hub = session.hub
    user = hub.access.set_user(args[0], args[1:], known_rules(hub.table))
    for other in list(hub.sessions.values()):
        if other.user is user:
            if not may_keep(user, other):
                _close(session, other)
            _look_at_wait(user, other)
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
        raise CommandError(f"ERR User '{quoted(name)}' not found")
    entry = session.hub.table.get(command[0])
    if entry is not None and entry.run is None and len(command) > 1:
        entry = entry.subcommands.get(command[1].upper())
    if entry is None:
        raise CommandError(f"ERR Command '{quoted(command[0])}' not found")
    if not entry.accepts(len(command)):
        raise CommandError(f"ERR wrong number of arguments for '{entry.name}' command")
    denial = _denial(session, user, entry, command)
    if denial is None:
        return OK
    named = f"'{text_of(denial.name)}' {denial.kind}"
    verb = "run" if denial.kind == "command" else "access"
    return f"This user has no permissions to {verb} the {named}"


@table.command("acl|log", -2, flags=ADMIN, categories=DANGEROUS)
def log(session: RespSession, args: list[bytes]) -> Reply:
    _at_most_one("LOG", args)
    hub = session.hub
    if args and len(args[0]) == len(b"RESET") and args[0].upper() == b"RESET":
        hub.logins.denials.reset()
        return OK
    now = hub.shell.clock()
    return [
        {
            "count": denial.count,
            "reason": denial.reason,
            "context": denial.context,
            "object": denial.object,
            "username": denial.user,
            "age-seconds": round(now - denial.updated, 3),
            "client-info": denial.client,
            "entry-id": denial.number,
            "timestamp-created": int(denial.created * 1000),
            "timestamp-last-updated": int(denial.updated * 1000),
        }
        for denial in hub.logins.denials.last(integer(args[0]) if args else SHOWN)
    ]


@table.command("acl|save", 2, flags=ADMIN, categories=DANGEROUS)
def save(session: RespSession, args: list[bytes]) -> Reply:
    file = _file(session)
    try:
        file.write(bytes(session.hub.access))
    except OSError as failed:
        raise CommandError(
            f"ERR There was an error trying to save the ACLs: {file.path}: {failed.strerror}"
        ) from None
    return OK


@table.command("acl|load", 2, flags=ADMIN, categories=DANGEROUS)
def load(session: RespSession, args: list[bytes]) -> Reply:
    hub, file = session.hub, _file(session)
    try:
        gone = set(hub.access.load(file.read(), file.path, known_rules(hub.table)))
    except OSError as failed:
        raise CommandError(
            f"ERR Error loading ACLs, opening file '{file.path}': {failed.strerror}"
        ) from None
    except AccessError as bad:
        raise CommandError(f"ERR {bad} {UNCHANGED}") from None
    for other in list(hub.sessions.values()):
        user = other.user
        if user is not None and (user in gone or not may_keep(user, other)):
            _close(session, other)
        elif user is not None:
            _look_at_wait(user, other)
    return OK


@table.command("acl|genpass", -2, flags=ASKING, categories=SLOW)
def genpass(session: RespSession, args: list[bytes]) -> Reply:
    _at_most_one("GENPASS", args)
    bits = integer(args[0]) if args else PASSWORD_BITS
    if not 0 < bits <= PASSWORD_BITS_MAX:
        raise CommandError(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a"
            f" positive number up to {PASSWORD_BITS_MAX}"
        )
    digits = (bits + 3) // 4
    return session.hub.shell.draw((digits + 1) // 2).hex()[:digits]


@table.command("acl|help", 2, flags=("loading", "stale"), categories=SLOW, steps=HELP_STEPS)
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
        "GENPASS [<bits>]",
        "    A password that nobody can guess.",
        "LOAD",
        "    Have the users of the ACL file and no others.",
        "LOG [<count> | RESET]",
        "    What was denied lately, or forget it.",
        "SAVE",
        "    Write all users to the ACL file.",
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


def known_rules(table: CommandTable) -> set[str]:
    """The commands, subcommands and categories that a rule may speak of."""
    known = {f"@{category}" for category in CATEGORIES}
    for entry in table:
        known |= {entry.name, *(part.name for part in entry.subcommands.values())}
    return known


def _file(session: RespSession) -> UserFile:
    if session.hub.user_file is None:
        raise CommandError(NO_FILE)
    return session.hub.user_file


def _runnable(table: CommandTable) -> list[CommandEntry]:
    """All that can be run, subcommands instead of what has them."""
    return [part for entry in table for part in (entry.subcommands.values() or (entry,))]


def may_keep(user: User, session: RespSession) -> bool:
    """Whether the user's rules, which just changed, leave a session what it is subscribed to."""
    if not user.has_lost_channels:
        return True
    mine = session.interests
    return all(map(user.may_use_channel, (*mine.exact, *mine.sharded))) and all(
        map(user.may_use_pattern, mine.pattern)
    )


def _look_at_wait(user: User, session: RespSession) -> None:
    """Have a read wait no longer that the user's rules, which just changed, do not allow."""
    waiting = session.awaited.waiting if session.awaited is not None else None
    command = waiting.asked.command if waiting is not None and waiting.asked is not None else None
    if session.awaited is None or command is None or user.is_unrestricted:
        return
    try:
        check_access(session, user, *command)
    except CommandError as denied:
        session.awaited.unblock(denied)


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
