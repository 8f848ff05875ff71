"""The place of an agent: its file, what is in it, and its routers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headgate.agent.agent import Agent, Opening
from headgate.agent.model import UserId
from headgate.agent.queues import OwnQueue, find_named
from headgate.agent.records import Database, connections, routers, users
from headgate.agent.records.connections import ConnectionRecord
from headgate.agent.records.view import view
from headgate.agent.shell_settings import ShellSettings
from headgate.client.smp.timing import BACKGROUND, PERSON_WAITS
from headgate.errors import ConfigError, Malformed, NotAllowed, RequestRefused, StoreError
from headgate.wire.smp.codec.router_address import RouterAddress

F = TypeVar("F", bound=Callable[..., Any])

VARIABLE: Final = "HEADGATE_AGENT"
FILE_NAME: Final = "agent.db"
ANSWER_SECONDS: Final = 10.0
"""How long a person waits for a router."""
PROGRESS_SECONDS: Final = 1.0
"""After which a person wants to know what is waited for."""


class RouterText(click.ParamType[RouterAddress]):
    """The address of a router, as `headgate init` prints it."""

    name = "router"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> RouterAddress:
        if isinstance(value, RouterAddress):
            return value
        try:
            return RouterAddress.parse(str(value))
        except Malformed as error:
            self.fail(f"{error}; `headgate init` prints the address of a router", param, ctx)


def file_option(command: F) -> F:
    """Add ``--file`` to a command, as the argument `path`."""
    return click.option(
        "--file",
        "path",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar=VARIABLE,
        default=FILE_NAME,
        show_default=f"{VARIABLE}, or {FILE_NAME} in the current directory",
        metavar="FILE",
        help="The agent's file.",
    )(command)


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """The user, its services and its router, as a command has to know them before it opens an
    agent."""

    user: UserId
    services: bool
    router: RouterAddress
    """Where new queues are made: the one that `init` was given first."""


def check_exists(path: Path) -> None:
    if not path.exists():
        raise ConfigError(
            f"there is no {path}; make one with `headgate agent init --router smp://...`, or name"
            " another file with --file"
        )


@contextmanager
def look(path: Path) -> Iterator[tuple[Database, AgentFacts]]:
    """The tables of a file, to be read."""
    check_exists(path)
    with view(path) as tables:
        everyone, known = users.everyone(tables), routers.everything(tables)
        if not everyone or not known:
            raise StoreError(
                f"{path} has no user or no router; make another with `headgate agent init`"
            )
        user = everyone[0]
        yield tables, AgentFacts(user.id, user.services, known[0].address)


def facts_of(path: Path) -> AgentFacts:
    with look(path) as (_, facts):
        return facts


def open_agent(path: Path, *, subscribe: bool) -> Opening:
    """The agent of a file, as it was left. A command that does not listen must not subscribe: what
    it would be given and not acknowledge counts as shown in vain."""
    timing = BACKGROUND if subscribe else PERSON_WAITS
    return Agent.open(
        path,
        services=facts_of(path).services,
        subscribe=subscribe,
        settings=ShellSettings(timing=timing),
    )


def find_queue(path: Path, name: str) -> OwnQueue | None:
    """The queue of this name that the file has."""
    with look(path) as (tables, facts):
        return find_named(tables, facts.user, name)


def find_connection(path: Path, name: str) -> ConnectionRecord | None:
    """The queue or the connection of this name in the file."""
    with look(path) as (tables, facts):
        return connections.named(tables, facts.user, name)


def known_queue(path: Path, name: str) -> OwnQueue:
    """A queue that has to exist."""
    queue = find_queue(path, name)
    if queue is None:
        raise ConfigError(
            f"there is no queue {name}; `headgate agent queue list` names those that there are"
        )
    return queue


def shown_router(router: RouterAddress) -> str:
    """A router as people know it, without its fingerprint."""
    return f"{router.hosts[0]}:{router.port}"


@asynccontextmanager
async def progress(text: str) -> AsyncIterator[asyncio.TimerHandle]:
    """Print on a terminal what is waited for, if it takes long. The handle that it yields can be
    cancelled."""

    def show() -> None:
        if sys.stderr.isatty():
            click.echo(text, err=True)

    timer = asyncio.get_running_loop().call_later(PROGRESS_SECONDS, show)
    try:
        yield timer
    finally:
        timer.cancel()


@asynccontextmanager
async def making_at(router: RouterAddress) -> AsyncIterator[None]:
    """Make something at a router: progress if it takes long, and what to do if it is refused."""
    try:
        async with progress(f"waiting for {shown_router(router)} ..."):
            yield
    except RequestRefused as error:
        if error.error != "AUTH":
            raise
        raise NotAllowed(
            f"{shown_router(router)} does not let this agent make queues; if its operator gave you"
            " a password, name the router with it: --router smp://FINGERPRINT:PASSWORD@HOST"
        ) from None
