"""Asks `echo_bot.py`, and prints what it answers.

    python examples/ask_bot.py smp://FINGERPRINT@relay.example.org 'smp://...#/?...' hello

The second argument is an address that the bot printed. The first who uses it has it for good, so
what makes us that sender is kept in a file.
"""

from __future__ import annotations

import asyncio
import sys

from headgate.agent import Agent, Message


async def main(relay: str, bot: str, text: str) -> None:
    async with Agent.open("ask.db", routers=[relay]) as agent:
        answers = await agent.queue("answers")
        questions = await agent.open_queue(bot)
        await questions.send(f"{answers.address.text}\n{text}".encode())
        async for event in agent.events():
            if isinstance(event, Message):
                print(event.body.decode())
                await event.ack()
                break


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
