"""A service that reads many meters: one request subscribes all their queues.

    python examples/meter_service.py smp://FINGERPRINT@relay.example.org 200

It prints the address of each queue, for the meter that sends to it: `headgate agent send`, or any
program with `Agent.open_queue`.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from headgate.agent import Agent, Message, NamedQueue, ServiceDown, ServiceUp


async def main(relay: str, count: int) -> None:
    # The file has a certificate, which makes this program a service, and the keys of all queues.
    async with Agent.open("meters.db", routers=[relay], services=True) as agent:
        for number in range(count):
            queue = await agent.queue(f"meter {number}")
            print(f"{queue.name}: {queue.address.text}", flush=True)
        async for event in agent.events():
            match event:
                case ServiceUp(tally=tally, drift=drift):
                    print(f"up: the router has {tally.count} of our queues", flush=True)
                    if drift is not None:
                        print(f"which are {drift.value}; repairing", flush=True)
                case ServiceDown():
                    print("down; it comes back by itself", flush=True)
                case Message(queue=NamedQueue(name=name), body=body):
                    print(f"{name} shows {body.decode()}", flush=True)
                    await event.ack()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1], int(sys.argv[2])))
