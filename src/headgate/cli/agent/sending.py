"""``headgate agent send``, and one message for ``headgate pub``."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from headgate.agent.agent import Agent
from headgate.agent.events import Failed, Sent, StoreFailed
from headgate.agent.model import ConnectionId
from headgate.agent.records import connections, routers, send_queues
from headgate.agent.records.connections import ConnectionKind, ConnectionStatus
from headgate.agent.shell_settings import ShellSettings
from headgate.cli.agent.place import (
    ANSWER_SECONDS,
    check_exists,
    file_option,
    look,
    open_agent,
    progress,
    shown_router,
)
from headgate.cli.agent.reaching import reach_later
from headgate.cli.output import emit, json_option
from headgate.client.smp.timing import PERSON_WAITS
from headgate.errors import ConfigError, HeadgateError, Malformed, NoRouter
from headgate.wire.smp.agent.queue_address import QueueAddress
from headgate.wire.smp.codec.router_address import SCHEME, RouterAddress


@click.command()
@file_option
@json_option
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0),
    default=ANSWER_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until the router has the message.",
)
@click.argument("to", metavar="NAME|ADDRESS")
@click.argument("text")
def send(path: Path, as_json: bool, seconds: float, to: str, text: str) -> None:
    """Send TEXT to a connection, or to a queue.

    A connection goes by its name, a queue by its address. With - for TEXT, what comes on standard
    input is sent. Prints "sent" when the router has it. If the router does not answer, it prints
    "stored": the message is in the agent's file, and goes out while any later `headgate agent send`
    or `headgate agent listen` runs; sending it again would send it twice.

    \b
    Examples:
      headgate agent send anna 'hello'
      date | headgate agent send 'smp://...#/?...' -
    """
    target = _target(path, to)
    body = sys.stdin.buffer.read() if text == "-" else text.encode(errors="surrogateescape")
    why = asyncio.run(_send(path, target, body, seconds))
    row: dict[str, object] = {"to": to, "sent": why is None}
    if why is not None:
        row["why"] = why
        click.echo(f"headgate: {why}", err=True)
    emit([row], lambda shown: "sent" if shown["sent"] else "stored", as_json)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a message, and the router that it goes to first."""

    where: QueueAddress | ConnectionId
    router: RouterAddress
    """That it goes to first."""


def _target(path: Path, text: str) -> Target:
    check_exists(path)
    if text.startswith(SCHEME):
        address = parse_address(text)
        return Target(address, address.router)
    with look(path) as (tables, facts):
        record = connections.named(tables, facts.user, text)
        if record is None:
            raise ConfigError(
                f"there is no connection {text}; `headgate agent join` makes one. The address of a"
                f" queue begins with {SCHEME}: put it in quotes"
            )
        if record.kind is ConnectionKind.RECEIVE:
            raise ConfigError(
                f"{text} is a queue that this agent reads; messages go to the address of a queue"
                " that another reads"
            )
        queues = send_queues.of_connection(tables, record.id)
        router = routers.get(tables, queues[0].router) if queues else None
        if router is None or record.status is not ConnectionStatus.READY:
            raise ConfigError(
                f"{text} is not connected yet; `headgate agent listen` goes on with it, and shows"
                " when it is"
            )
        return Target(record.id, router.address)


def parse_address(text: str) -> QueueAddress:
    """The address of a queue that somebody typed."""
    try:
        return QueueAddress.parse(text)
    except Malformed as error:
        raise ConfigError(
            f"this is no address of a queue ({error}); put all of what `headgate agent queue new`"
            " printed in quotes, with the part behind #"
        ) from None


async def _send(path: Path, target: Target, body: bytes, seconds: float) -> str | None:
    async with open_agent(path, subscribe=False) as opened:
        return await deliver(opened, target, body, seconds)


async def send_once(address: QueueAddress, body: bytes) -> None:
    """Send one message, and keep nothing. Raises if its router does not have it."""
    async with Agent.memory(settings=ShellSettings(timing=PERSON_WAITS)) as agent:
        why = await deliver(agent, Target(address, address.router), body, ANSWER_SECONDS)
    if why is not None:
        raise NoRouter(
            f"{why}; the message was not stored either: try again later, or use"
            " `headgate agent send`, which keeps it until it is sent"
        )


async def deliver(agent: Agent, target: Target, body: bytes, seconds: float) -> str | None:
    """Send a message. None when its router has it; otherwise it is stored, and this is why the
    router does not have it yet. Raises if it never will."""
    async with progress(f"waiting for {shown_router(target.router)} ..."):
        connection, id = await _store(agent, target.where, body)
        sent = asyncio.create_task(_sent(agent, connection, id))
        failing = asyncio.create_task(reach_later(target.router))
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait([sent, failing], return_when=asyncio.FIRST_COMPLETED)
                if not sent.done():
                    failure = failing.result()
                    if failure is not None:
                        return str(failure)
                await sent
        except TimeoutError:
            return f"its router did not take it within {seconds:g} seconds"
        finally:
            sent.cancel()
            failing.cancel()
    return None


async def _store(
    agent: Agent, where: QueueAddress | ConnectionId, body: bytes
) -> tuple[ConnectionId, int]:
    if isinstance(where, QueueAddress):
        queue = await agent.open_queue(where)
        return queue.connection, await queue.send(body)
    return where, await agent.send(where, body)


async def _sent(agent: Agent, connection: ConnectionId, id: int) -> None:
    """Wait until the router has the message."""
    async for event in agent.events():
        match event:
            case Sent() if (event.connection, event.id) == (connection, id):
                return
            case Failed() if event.connection == connection and id in event.ids:
                raise HeadgateError(f"the message cannot be sent: {event.reason}")
            case StoreFailed():
                click.echo(f"headgate: {event.reason}", err=True)
            case _:
                pass
