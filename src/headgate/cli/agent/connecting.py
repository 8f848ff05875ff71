"""``headgate agent invite`` and ``join``: connections, on which messages go both ways."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from headgate.agent.agent import Agent
from headgate.agent.connections.connection import Connection
from headgate.agent.events import Connected, Failed
from headgate.cli.agent.place import (
    ANSWER_SECONDS,
    RouterText,
    facts_of,
    file_option,
    making_at,
    open_agent,
    progress,
)
from headgate.cli.output import emit, json_option
from headgate.errors import ConfigError, HeadgateError, Malformed
from headgate.wire.smp.codec.router_address import RouterAddress

name_option = click.option(
    "--name", required=True, metavar="NAME", help="What this agent calls the other one."
)
router_option = click.option(
    "--router",
    "address",
    type=RouterText(),
    metavar="smp://...",
    help="Receive there.  [default: the router that init was given]",
)
pq_option = click.option(
    "--pq", is_flag=True, help="With keys against computers to come; needs headgate[pq]."
)


@click.command()
@file_option
@json_option
@name_option
@router_option
@pq_option
@click.option("--short", is_flag=True, help="A link of a hundred characters, kept at the router.")
@click.option("--wait", is_flag=True, help="Wait until the other has used the link.")
def invite(
    path: Path,
    as_json: bool,
    name: str,
    address: RouterAddress | None,
    pq: bool,
    short: bool,
    wait: bool,
) -> None:
    """Print a link, and be connected with the one who uses it first.

    Hand it to one other agent, which may be of SimpleX's kind, over a way on which nobody can
    exchange it. Without --wait, the connection is made while any later `headgate agent listen`
    runs. A link of this name that nobody has used is printed again.

    \b
    Example:
      headgate agent invite --name anna --wait
    """
    router = address or facts_of(path).router
    asyncio.run(_invite(path, name, router, pq, short, wait, as_json))


async def _invite(
    path: Path,
    name: str,
    router: RouterAddress,
    pq: bool,
    short: bool,
    wait: bool,
    as_json: bool,
) -> None:
    async with open_agent(path, subscribe=False) as agent:
        async with making_at(router):
            made = await agent.invite(name, router=router, auto_accept=True, short=short, pq=pq)
        emit([{"name": name, "link": str(made.link)}], lambda row: str(row["link"]), as_json)
        if wait:
            sys.stdout.flush()
            async with progress(f"waiting for {name} to use the link ..."):
                await _connected(agent, made.connection)
            emit([{"name": name, "connected": True}], lambda row: "connected", as_json)


@click.command()
@file_option
@json_option
@name_option
@router_option
@pq_option
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0),
    default=ANSWER_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until the other has accepted.",
)
@click.argument("link")
def join(
    path: Path,
    as_json: bool,
    name: str,
    address: RouterAddress | None,
    pq: bool,
    seconds: float,
    link: str,
) -> None:
    """Use a LINK that another agent handed out, and be connected with it.

    Prints "connected" when messages go both ways. If the other takes longer to accept, it prints
    "joining": the rest is done while any later `headgate agent listen` runs.

    \b
    Example:
      headgate agent join 'simplex:/invitation#/?...' --name bob
    """
    router = address or facts_of(path).router
    used, is_connected = asyncio.run(_join(path, name, router, link, pq, seconds))
    if used != name:
        click.echo(f"this agent used the link before, for {used}", err=True)
    row = {"name": used, "connected": is_connected}
    emit([row], lambda shown: "connected" if shown["connected"] else "joining", as_json)


async def _join(
    path: Path, name: str, router: RouterAddress, link: str, pq: bool, seconds: float
) -> tuple[str, bool]:
    """What the connection is called, and whether messages go both ways. One that was joined before
    keeps its name."""
    waiting = progress(f"waiting for {name} to accept ...")
    async with waiting, open_agent(path, subscribe=False) as agent:
        try:
            joined = await agent.join(link, name=name, router=router, pq=pq)
        except Malformed as error:
            raise ConfigError(
                f"this is no link ({error}); put all of what `headgate agent invite` printed in"
                " quotes, with the part behind #"
            ) from None
        used = joined.name or joined.id.hex()
        try:
            async with asyncio.timeout(seconds):
                await _connected(agent, joined)
        except TimeoutError:
            return used, False
    return used, True


async def _connected(agent: Agent, connection: Connection) -> None:
    """Wait until messages go both ways."""
    if (await connection.state()).is_ready:
        return
    await agent.subscribe([connection.id])
    async for event in agent.events():
        match event:
            case Connected() if event.connection == connection.id:
                return
            case Failed() if event.connection == connection.id and not event.ids:
                raise HeadgateError(f"the connection cannot be made: {event.reason}")
            case _:
                pass
