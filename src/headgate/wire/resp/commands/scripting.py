"""Scripts: there is no Lua here, but three scripts are known by their digests.

They are those of redis-py's `Lock`, which libraries build on. Each compares the value of one key
with the holder's token and then changes the key, which is done here as one command. Any other
script is refused, with a sentence that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from typing import TYPE_CHECKING, Final, TypeAlias

from headgate.core.redis.keyspace import Keyspace, milliseconds
from headgate.wire.resp.codec.integers import INT64, integer
from headgate.wire.resp.codec.replies import OK, CommandError, Reply, Simple
from headgate.wire.resp.command_cost import HELP_STEPS
from headgate.wire.resp.commands.table import CommandTable

if TYPE_CHECKING:
    from headgate.wire.resp.session import RespSession

table = CommandTable()

ONLY: Final = "there is no Lua here; the only scripts that are known are those of redis-py's Lock"
UNKNOWN_SCRIPT: Final = f"ERR this script cannot be run: {ONLY}"
NO_SCRIPT: Final = f"NOSCRIPT No matching script: {ONLY}"
NO_LOCK: Final = "ERR a script of redis-py's Lock has one key, and {} more"
SCRIPT_BYTES: Final = 1024
"""No script that is known is longer, so a longer one is not even looked at."""

EVALUATING: Final = ("write", "noscript", "stale", "skip_monitor")
SCRIPTING: Final = ("slow", "scripting")
LOCK_KEY: Final = (3, 3, 1)

LockWork: TypeAlias = Callable[[Keyspace, int, bytes, int, list[bytes]], bool]
"""Changes a lock that its holder has: the keys, the database, the key, the time in milliseconds and
the arguments behind the token. Whether it is done."""


def _release(keys: Keyspace, db: int, key: bytes, now: int, args: list[bytes]) -> bool:
    return keys.delete(db, key, now / 1000)


def _extend(keys: Keyspace, db: int, key: bytes, now: int, args: list[bytes]) -> bool:
    deadline = keys.deadline(db, key, now / 1000)
    if deadline is None:
        return False
    return _expire(keys, db, key, now, integer(args[0]) + (deadline if args[1] == b"0" else now))


def _reacquire(keys: Keyspace, db: int, key: bytes, now: int, args: list[bytes]) -> bool:
    return _expire(keys, db, key, now, integer(args[0]) + now)


def _expire(keys: Keyspace, db: int, key: bytes, now: int, deadline: int) -> bool:
    if deadline not in INT64:
        raise CommandError("ERR invalid expire time in 'pexpire' command")
    return keys.expire(db, key, deadline, now / 1000)


LOCKS: Final[dict[bytes, tuple[LockWork, int]]] = {
    b"c3f8721cbb97f72bc19e972846bd7aaf91901658": (_release, 1),
    b"a4e8783852e6b949f9ef3a97212805108459a890": (_extend, 3),
    b"1cac51482acf5858da00f6d685d68f886cd6b6b2": (_reacquire, 2),
}
"""By the SHA-1 of the script, with how many arguments it has behind its key."""


def _digest(script: bytes) -> bytes:
    """The digest of a script that is known; raise if it is none."""
    if len(script) <= SCRIPT_BYTES:
        digest = sha1(script, usedforsecurity=False).hexdigest().encode()
        if digest in LOCKS:
            return digest
    raise CommandError(UNKNOWN_SCRIPT)


def _run(session: RespSession, digest: bytes, args: list[bytes]) -> Reply:
    work, count = LOCKS[digest]
    if args[0] != b"1" or len(args) != 2 + count:
        raise CommandError(NO_LOCK.format(count))
    hub, db = session.hub, session.db
    key, token = args[1:3]
    now = hub.shell.clock()
    try:
        if hub.keys.get(db, key, now) != token:
            return 0
        return int(work(hub.keys, db, key, milliseconds(now), args[3:]))
    finally:
        hub.publish_expired()


@table.command("evalsha", -3, flags=EVALUATING, categories=SCRIPTING, keys=LOCK_KEY)
def evalsha(session: RespSession, args: list[bytes]) -> Reply:
    digest = args[0].lower()
    if digest not in LOCKS:
        raise CommandError(NO_SCRIPT)
    return _run(session, digest, args[1:])


@table.command("eval", -3, flags=EVALUATING, categories=SCRIPTING, keys=LOCK_KEY)
def eval(session: RespSession, args: list[bytes]) -> Reply:
    return _run(session, _digest(args[0]), args[1:])


@table.command("script|load", 3, flags=("noscript", "stale"), categories=SCRIPTING)
def load(session: RespSession, args: list[bytes]) -> Reply:
    return _digest(args[0])


@table.command("script|exists", -3, flags=("noscript",), categories=SCRIPTING)
def exists(session: RespSession, args: list[bytes]) -> Reply:
    return [int(digest.lower() in LOCKS) for digest in args]


@table.command("script|flush", -2, flags=("noscript",), categories=SCRIPTING)
def flush(session: RespSession, args: list[bytes]) -> Reply:
    if len(args) > 1 or (args and args[0].upper() not in (b"SYNC", b"ASYNC")):
        raise CommandError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    return OK


@table.command("script|help", 2, flags=("loading", "stale"), categories=SCRIPTING, steps=HELP_STEPS)
def help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "EXISTS <sha1> [<sha1> ...]",
        "    Whether these scripts are known: those of redis-py's Lock are, always.",
        "FLUSH [ASYNC|SYNC]",
        "    Accepted, without effect.",
        "LOAD <script>",
        "    The digest of a script that is known.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]
