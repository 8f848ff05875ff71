"""A bot that repeats what it is sent, over encrypted queues.

    python examples/echo_bot.py smp://FINGERPRINT@relay.example.org anna ben

Whoever writes to it has a queue of their own, whose address the bot prints. A message is the
address to answer to, a line break, and text; `ask_bot.py` writes such messages.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from headgate.agent import Agent, Down, Message, Up
from headgate.errors import HeadgateError


async def main(relay: str, names: list[str]) -> None:
    async with Agent.open("echo.db", routers=[relay]) as agent:
        for name in names:
            queue = await agent.queue(name)  # made once, found again later
            print(name, queue.address.text, flush=True)
        async for event in agent.events():
            match event:
                case Message():
                    await answer(agent, event)
                    # Only now: after a crash it answers again, rather than never.
                    await event.ack()
                case Up():
                    print("up", flush=True)
                case Down():
                    print("down; it comes back by itself", flush=True)


async def answer(agent: Agent, message: Message) -> None:
    address, _, text = message.body.decode(errors="replace").partition("\n")
    try:
        queue = await agent.open_queue(address)
        await queue.send(f"you said: {text}".encode())  # stored; it is sent in its turn
    except HeadgateError as error:
        print(f"cannot answer: {error}", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1], sys.argv[2:]))
