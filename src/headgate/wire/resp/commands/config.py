"""CONFIG: what can be asked about the router's settings, and what can be changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from headgate.core.redis.keyspace import DATABASES
from headgate.wire.resp import settings as values
from headgate.wire.resp.codec.replies import OK, CommandError, Reply, Simple, text_of
from headgate.wire.resp.command_cost import HELP_STEPS, glob_of
from headgate.wire.resp.commands.table import CommandTable, quoted
from headgate.wire.resp.settings import OutputLimit, SlowPolicy

if TYPE_CHECKING:
    from headgate.wire.resp.hub import Hub
    from headgate.wire.resp.session import RespSession

table = CommandTable()
T = TypeVar("T")

ADMIN = ("admin", "noscript", "loading", "stale")
DANGEROUS = ("admin", "slow", "dangerous")
HIDDEN = "(redacted)"
GLOB_STEPS = 50
"""Of a pattern that all names are compared with."""

Read: TypeAlias = "Callable[[Hub], str]"
Change: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that CONFIG shows, and how it is changed if it can be."""

    read: Read
    prepare: Callable[[Hub, str], Change]
    """Reads a new value, and returns what makes it the present one: of several settings in one
    command all are changed or none. Raises ValueError with the reason against it."""


def _fixed(read: Read) -> Setting:
    """A setting that cannot change. Told to be as it is, it does not object."""

    def prepare(hub: Hub, text: str) -> Change:
        if text.lower() != read(hub):
            raise ValueError("can't set immutable config")
        return lambda: None

    return Setting(read, prepare)


def _settable(read: Read, parse: Callable[[str], T], store: Callable[[Hub, T], None]) -> Setting:
    return Setting(read, lambda hub, text: partial(store, hub, parse(text)))


# How each that can change is stored.


def _set_events(hub: Hub, events: str) -> None:
    hub.settings.notify_keyspace_events = events


def _set_policy(hub: Hub, policy: SlowPolicy) -> None:
    hub.settings.slow_session = policy


def _set_timeout(hub: Hub, seconds: float) -> None:
    hub.settings.slow_timeout = seconds


def _set_quota(hub: Hub, count: int) -> None:
    hub.settings.dispatch_quota = count


def _set_max_clients(hub: Hub, count: int) -> None:
    hub.settings.max_clients = count


def _set_budget(hub: Hub, size: int) -> None:
    hub.budget.limit = size


def _set_soft(hub: Hub, size: int) -> None:
    hub.budget.mailbox_soft = size


def _set_hard(hub: Hub, size: int) -> None:
    hub.budget.mailbox_hard = size


def _set_password(hub: Hub, password: str) -> None:
    hub.access.set_default_password(password or None)


def _output_limits(hub: Hub) -> str:
    budget = hub.budget
    hard, soft = (
        0 if size >= values.UNLIMITED else size
        for size in (budget.mailbox_hard, budget.mailbox_soft)
    )
    of_pubsub = OutputLimit(hard, soft, int(hub.settings.slow_timeout))
    return values.output_limits_text(hub.settings.output_limits | {"pubsub": of_pubsub})


def _set_output_limits(hub: Hub, limits: dict[str, OutputLimit]) -> None:
    """The limits of subscribers are those of mailboxes, and no others."""
    of_pubsub = limits.pop("pubsub", None)
    hub.settings.output_limits |= limits
    if of_pubsub is not None:
        hub.budget.mailbox_hard = of_pubsub.hard or values.UNLIMITED
        hub.budget.mailbox_soft = of_pubsub.soft or values.UNLIMITED
        hub.settings.slow_timeout = float(of_pubsub.seconds)


def _known() -> dict[str, Setting]:
    return {
        "save": _fixed(lambda hub: ""),
        "appendonly": _fixed(lambda hub: "no"),
        "databases": _fixed(lambda hub: str(DATABASES)),
        "bind": _fixed(lambda hub: hub.settings.host),
        "port": _fixed(lambda hub: str(hub.settings.port)),
        "timeout": _fixed(lambda hub: "0"),
        "tcp-keepalive": _fixed(lambda hub: "300"),
        "hz": _fixed(lambda hub: "10"),
        "loglevel": _fixed(lambda hub: "notice"),
        "maxmemory": _fixed(lambda hub: "0"),
        "maxmemory-policy": _fixed(lambda hub: "noeviction"),
        "proto-max-bulk-len": _fixed(lambda hub: str(hub.broker.limits.bulk_bytes)),
        "cluster-enabled": _fixed(lambda hub: values.yes_or_no(hub.cluster is not None)),
        "requirepass": _settable(
            # Nobody can be told: only a digest is kept.
            lambda hub: HIDDEN if hub.access.needs_password else "",
            str,
            _set_password,
        ),
        "maxclients": _settable(
            lambda hub: str(hub.settings.max_clients),
            lambda text: values.whole(text, 1, 2**32 - 1),
            _set_max_clients,
        ),
        "notify-keyspace-events": _settable(
            lambda hub: values.events(hub.settings.notify_keyspace_events),
            values.events,
            _set_events,
        ),
        "publish-buffer-limit": _settable(
            lambda hub: values.limit_text(hub.budget.limit), values.limit, _set_budget
        ),
        "async-dispatch-quota": _settable(
            lambda hub: str(hub.settings.dispatch_quota),
            lambda text: values.whole(text, 0, 2**31 - 1),
            _set_quota,
        ),
        "slow-session": _settable(
            lambda hub: hub.settings.slow_session, values.slow_policy, _set_policy
        ),
        "slow-timeout": _settable(
            lambda hub: values.seconds_text(hub.settings.slow_timeout), values.seconds, _set_timeout
        ),
        "mailbox-soft": _settable(
            lambda hub: values.limit_text(hub.budget.mailbox_soft), values.limit, _set_soft
        ),
        "mailbox-hard": _settable(
            lambda hub: values.limit_text(hub.budget.mailbox_hard), values.limit, _set_hard
        ),
        "client-output-buffer-limit": _settable(
            _output_limits, values.output_limits, _set_output_limits
        ),
    }


SETTINGS = _known()
"""The known settings, by name."""

BY_SPELLING = {spelling: name for name in SETTINGS for spelling in values.spellings(name)}


@table.command("config|get", -3, flags=ADMIN, categories=DANGEROUS, each=GLOB_STEPS)
def get(session: RespSession, args: list[bytes]) -> Reply:
    globs = [glob_of(session, pattern) for pattern in {pattern.lower() for pattern in args}]
    found: dict[str, Reply] = {}
    # RESP-21: what is no setting is left out.
    for name, setting in SETTINGS.items():
        # Under the name that was asked for, once.
        for spelling in values.spellings(name):
            if any(glob.matches(spelling.encode()) for glob in globs):
                found[spelling] = setting.read(session.hub)
                break
    return found


@table.command("config|set", -4, flags=ADMIN, categories=DANGEROUS)
def set_(session: RespSession, args: list[bytes]) -> Reply:
    hub = session.hub
    if len(args) % 2:
        raise CommandError("ERR syntax error")
    wanted: dict[str, tuple[str, str]] = {}
    for argument, given in zip(args[::2], args[1::2], strict=True):
        asked = quoted(argument)
        name = BY_SPELLING.get(asked.lower())
        if name is None:
            raise CommandError(
                f"ERR Unknown option or number of arguments for CONFIG SET - '{asked}'"
            )
        if name in wanted:
            raise _failed(asked, "duplicate parameter")
        wanted[name] = (asked, text_of(given))
    changes = []
    for name, (asked, text) in wanted.items():
        try:
            changes.append(SETTINGS[name].prepare(hub, text))
        except ValueError as bad:
            raise _failed(asked, str(bad)) from None
    for change in changes:
        change()
    # A limit may have been raised for which publishers wait.
    hub.wake_all()
    return OK


def _failed(name: str, reason: str) -> CommandError:
    return CommandError(f"ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")


@table.command("config|resetstat", 2, flags=ADMIN, categories=DANGEROUS)
def resetstat(session: RespSession, args: list[bytes]) -> Reply:
    session.hub.connections = session.hub.commands = 0
    return OK


@table.command("config|rewrite", 2, flags=ADMIN, categories=DANGEROUS)
def rewrite(session: RespSession, args: list[bytes]) -> Reply:
    raise CommandError("ERR The server is running without a config file")


@table.command("config|help", 2, flags=("loading", "stale"), categories=("slow",), steps=HELP_STEPS)
def help(session: RespSession, args: list[bytes]) -> Reply:
    lines = (
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    The settings whose names match, and their values.",
        "SET <name> <value> [<name> <value> ...]",
        "    Change settings until the router stops: all of them, or none.",
        "RESETSTAT",
        "    Count connections and commands from zero again.",
        "REWRITE",
        "    Refused: the file that the router was started with is not written.",
        "HELP",
        "    This list.",
    )
    return [Simple(line) for line in lines]
