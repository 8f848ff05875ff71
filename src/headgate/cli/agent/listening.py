"""``headgate agent listen``."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from headgate.agent.agent import Agent
from headgate.agent.event_stream import AgentEvent
from headgate.agent.events import (
    Connected,
    Deleted,
    Down,
    End,
    Failed,
    Message,
    Problem,
    ServiceDown,
    ServiceEnd,
    ServiceUp,
    StoreFailed,
    Up,
)
from headgate.agent.model import ConnectionId
from headgate.agent.records.connections import ConnectionKind
from headgate.cli.agent.place import (
    check_exists,
    facts_of,
    file_option,
    find_connection,
    open_agent,
    progress,
    shown_router,
)
from headgate.cli.output import emit, json_option
from headgate.errors import ConfigError, HeadgateError


@click.command()
@file_option
@json_option
@click.option("--count", type=click.IntRange(1), help="Exit after this many messages.")
@click.option("--from", "name", metavar="NAME", help="Only messages of this queue or connection.")
@click.option(
    "--exec",
    "command",
    metavar="CMD",
    help="Run CMD for each message instead of printing it, with the message on standard input,"
    " HEADGATE_AGENT_FROM and HEADGATE_AGENT_MESSAGE (its number) in the environment.",
)
def listen(
    path: Path, as_json: bool, count: int | None, name: str | None, command: str | None
) -> None:
    """Print the messages of all queues and connections, until Ctrl-C.

    Each has a line. A message is acknowledged when its line was written, or when CMD ended with 0;
    then it is gone. If CMD fails, listening ends, and the message comes again the next time. Line
    breaks are printed as \\n; a message that is no text, in hex.

    \b
    Examples:
      headgate agent listen --json
      headgate agent listen --from meters --exec ./store-reading
    """
    if command is not None and as_json:
        raise click.UsageError("--json is for messages that are printed, without --exec")
    check_exists(path)
    only = None if name is None else _source(path, name)
    asyncio.run(_listen(path, only, count, command, as_json))


def _source(path: Path, name: str) -> ConnectionId:
    record = find_connection(path, name)
    if record is None or record.kind not in (ConnectionKind.RECEIVE, ConnectionKind.DUPLEX):
        raise ConfigError(
            f"there is no queue or connection {name}; `headgate agent queue list` and `headgate"
            " agent connection list` name those that there are"
        )
    if facts_of(path).services:
        raise ConfigError(
            "this agent is a service, which receives from all its queues at once; listen without"
            " --from, or switch the service off with `headgate agent service off`"
        )
    return record.id


async def _listen(
    path: Path, only: ConnectionId | None, count: int | None, command: str | None, as_json: bool
) -> None:
    """Print messages, or hand each to a command, and acknowledge it then."""
    left = count
    opening = open_agent(path, subscribe=only is None)
    async with progress("waiting for routers ...") as waiting, opening as agent:
        if only is not None:
            await agent.subscribe([only])
        async for event in agent.events():
            waiting.cancel()
            if isinstance(event, Connected):
                click.echo(f"connected with {await _name(agent, event.connection)}", err=True)
                continue
            if not isinstance(event, Message):
                _print_change(event)
                continue
            source = await _source_of(agent, event)
            if command is None:
                emit([_row(event, source)], _line, as_json)
                sys.stdout.flush()
            else:
                await _run(command, event, source)
            await event.ack()
            if left is not None:
                left -= 1
                if not left:
                    return


async def _source_of(agent: Agent, message: Message) -> str:
    """The agent's name for the queue or the connection that a message came through."""
    if message.queue is not None:
        return message.queue.name or message.connection.hex()
    return await _name(agent, message.connection)


async def _name(agent: Agent, connection: ConnectionId) -> str:
    return (await agent.connection(connection)).name or connection.hex()


async def _run(command: str, message: Message, source: str) -> None:
    """Hand the body to a command on its standard input."""
    environment = {
        **os.environ,
        "HEADGATE_AGENT_FROM": source,
        "HEADGATE_AGENT_MESSAGE": str(message.id),
    }
    running = await asyncio.create_subprocess_shell(
        command, stdin=asyncio.subprocess.PIPE, env=environment
    )
    await running.communicate(message.body)
    if running.returncode:
        raise HeadgateError(
            f"{command!r} ended with {running.returncode} for message {message.id} of {source}; the"
            " message is not acknowledged and comes again with the next `headgate agent listen`"
        )


def _row(message: Message, source: str) -> dict[str, object]:
    row: dict[str, object] = {"from": source, "id": message.id, "seconds": message.seconds}
    try:
        row["body"] = message.body.decode()
    except UnicodeDecodeError:
        row["hex"] = message.body.hex()
    if message.attempts > 1:
        row["attempts"] = message.attempts
    return row


def _line(row: Mapping[str, object]) -> str:
    body = row.get("hex")
    return f"{row['from']}: {_one_line(str(row['body'])) if body is None else body}"


def _one_line(text: str) -> str:
    """Text with its line breaks, and what would control a terminal, written as in Python."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _print_change(event: AgentEvent) -> None:
    """A line for people while messages are waited for."""
    match event:
        case Up() | ServiceUp():
            text = f"listening at {shown_router(event.router)}"
        case Down() | ServiceDown():
            text = f"lost {shown_router(event.router)}; trying again"
        case End() | ServiceEnd():
            text = f"another program reads the same queues at {shown_router(event.router)}"
        case Deleted():
            text = f"a queue was deleted at {shown_router(event.router)}"
        case Problem():
            text = f"{shown_router(event.router)}: {event.text or event.kind.value}"
        case Failed(ids=()):
            text = f"a connection cannot be made: {event.reason}"
        case Failed():
            text = f"messages {', '.join(map(str, event.ids))} cannot be sent: {event.reason}"
        case StoreFailed():
            text = event.reason
        case _:
            return
    click.echo(text, err=True)
