"""A program with an agent that expects to be killed while it connects and while it writes.

    python -m tests.crash.peer_program invite FILE ROUTER NEXT CONNECTIONS
    python -m tests.crash.peer_program join FILE ROUTER NEXT LINK ...

Each line that it prints is true before anything else happens: `made NAME LINK`; `begun WAY NUMBER`,
`sent WAY NUMBER`; `shown WAY NUMBER`, `acked WAY NUMBER`. A way is the name of a connection and `>`
for what the one who invited writes, `<` for what the other does. With 0 as NEXT nothing is sent but
what the file has.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from headgate.agent import Agent, Connection, Message
from headgate.errors import HeadgateError, StoreError
from tests.crash.agent_program import opening, print_line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    inviting = verbs.add_parser("invite")
    joining = verbs.add_parser("join")
    for verb in (inviting, joining):
        verb.add_argument("file", type=Path)
        verb.add_argument("router")
        verb.add_argument("next", type=int)
    inviting.add_argument("connections", type=int)
    inviting.set_defaults(run=invite)
    joining.add_argument("links", nargs="+")
    joining.set_defaults(run=join)
    options = parser.parse_args()
    asyncio.run(options.run(options))


async def invite(options: argparse.Namespace) -> None:
    async def make(agent: Agent, name: str) -> None:
        made = await agent.invite(name, router=options.router, auto_accept=True)
        print_line("made", name, made.link)

    names = [f"c{number}" for number in range(options.connections)]
    await talk(options, dict.fromkeys(names, make), ">")


async def join(options: argparse.Namespace) -> None:
    def using(link: str) -> Callable[[Agent, str], Awaitable[None]]:
        async def use(agent: Agent, name: str) -> None:
            await agent.join(link, name=name, router=options.router)

        return use

    await talk(options, {f"c{at}": using(link) for at, link in enumerate(options.links)}, "<")


async def talk(
    options: argparse.Namespace,
    makers: dict[str, Callable[[Agent, str], Awaitable[None]]],
    way: str,
) -> None:
    """Make what is not made yet, write as this side, and read what the other side writes."""
    async with opening(options.file) as agent, asyncio.TaskGroup() as tasks:
        for name, make in makers.items():
            tasks.create_task(write(agent, name, make, way, options.next))
        async for event in agent.events():
            if isinstance(event, Message):
                wrote, number = event.body.decode().split()
                print_line("shown", wrote, number)
                await event.ack(receipt=random.random() < 0.5)
                print_line("acked", wrote, number)


async def write(
    agent: Agent,
    name: str,
    make: Callable[[Agent, str], Awaitable[None]],
    way: str,
    number: int,
) -> None:
    connection = await made(agent, name, make)
    while True:
        if (await connection.state()).is_ready:
            break
        await asyncio.sleep(0.02)
    while number:
        print_line("begun", name + way, number)
        await connection.send(f"{name}{way} {number}".encode())
        print_line("sent", name + way, number)
        number += 1
        await asyncio.sleep(random.choice((0.0, 0.01, 0.1)))


async def made(
    agent: Agent, name: str, make: Callable[[Agent, str], Awaitable[None]]
) -> Connection:
    """The connection of this name, whatever an earlier run had of it."""
    while True:
        try:
            await make(agent, name)
        except StoreError:  # it was used
            return await agent.connection(name)
        except HeadgateError:  # the router is being killed, too
            await asyncio.sleep(0.05)
        else:
            return await agent.connection(name)


if __name__ == "__main__":
    main()
