"""A program with an agent that expects to be killed: it reads queues, or it sends to them.

    python -m tests.crash.agent_program read FILE ROUTER QUEUES [--services]
    python -m tests.crash.agent_program write FILE NEXT ADDRESS ...

Each line that it prints is true before anything else happens: `made NAME ADDRESS`, `shown NAME
NUMBER`, `acked NAME NUMBER`; `begun NAME NUMBER`, `sent NAME NUMBER`. With 0 as NEXT nothing is
sent but what the file has.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from pathlib import Path

from headgate.agent.agent import Agent, Opening
from headgate.agent.agent_options import AgentOptions
from headgate.agent.events import Message
from headgate.agent.records import Records
from headgate.errors import HeadgateError
from headgate.wire.smp.codec.router_address import RouterAddress
from tests.support.agent_scene import QUICK, HurriedClock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    reading = verbs.add_parser("read")
    reading.add_argument("file", type=Path)
    reading.add_argument("router")
    reading.add_argument("queues", type=int)
    reading.add_argument("--services", action="store_true")
    reading.set_defaults(run=read)
    writing = verbs.add_parser("write")
    writing.add_argument("file", type=Path)
    writing.add_argument("next", type=int)
    writing.add_argument("addresses", nargs="+")
    writing.set_defaults(run=write)
    options = parser.parse_args()
    asyncio.run(options.run(options))


def opening(file: Path, services: bool = False) -> Opening:
    options = AgentOptions(services=services, settings=QUICK, clock=HurriedClock())
    return Opening(lambda: Records.open(file), options)


def print_line(*words: object) -> None:
    print(*words, flush=True)


async def read(options: argparse.Namespace) -> None:
    async with opening(options.file, options.services) as agent, asyncio.TaskGroup() as tasks:
        for number in range(options.queues):
            tasks.create_task(own(agent, f"q{number}", RouterAddress.parse(options.router)))
        async for event in agent.events():
            if isinstance(event, Message):
                name, number_of = event.body.decode().split()
                print_line("shown", name, number_of)
                await event.ack()
                print_line("acked", name, number_of)


async def own(agent: Agent, name: str, router: RouterAddress) -> None:
    while True:
        try:
            queue = await agent.queue(name, router=router)
        except HeadgateError:  # the router is being killed, too
            await asyncio.sleep(0.05)
        else:
            print_line("made", name, queue.address)
            return


async def write(options: argparse.Namespace) -> None:
    async with opening(options.file) as agent, asyncio.TaskGroup() as tasks:
        tasks.create_task(pass_over(agent))
        for number, address in enumerate(options.addresses):
            tasks.create_task(send(agent, f"q{number}", address, options.next))


async def pass_over(agent: Agent) -> None:
    async for _ in agent.events():
        pass


async def send(agent: Agent, name: str, address: str, number: int) -> None:
    queue = await agent.open_queue(address)
    while number:
        print_line("begun", name, number)
        await queue.send(f"{name} {number}".encode())
        print_line("sent", name, number)
        number += 1
        await asyncio.sleep(random.choice((0.0, 0.01, 0.1)))


if __name__ == "__main__":
    main()
