"""A bot that repeats what it is sent, over connections.

    python examples/connection_bot.py smp://FINGERPRINT@relay.example.org

It prints the link of its address, which any number of agents may use:

    headgate agent join 'simplex:/contact#/?...' --name bot
    headgate agent send bot hello
    headgate agent listen
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from headgate.agent import Agent, Connected, Message, Request


async def main(relay: str) -> None:
    async with Agent.open("connection_bot.db", routers=[relay]) as agent:
        address = await agent.address("echo")  # made once, found again later
        print(address.link, flush=True)
        async for event in agent.events():
            match event:
                case Request():
                    await event.accept(b"the echo bot")
                case Connected():
                    print("somebody is connected", flush=True)
                case Message(connection=peer, body=body):
                    await agent.send(peer, b"you said: " + body)  # stored; sent in its turn
                    await event.ack(receipt=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1]))
