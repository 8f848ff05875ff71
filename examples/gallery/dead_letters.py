"""What cannot be done goes to a queue of its own, with the reason, and the others go on.

The failed job is stored there before it is confirmed here, so a crash between the two leaves it in
both, never in neither.

python dead_letters.py tcp://127.0.0.1:30114
"""

from __future__ import annotations

import asyncio
import sys

from headgate.client.bmq import Client


async def main(address: str) -> None:
    async with await Client.connect(address) as client:
        jobs = await client.open("bmq://jobs/halve", read=True, write=True)
        failed = await client.open("bmq://failed/halve", read=True, write=True)
        for number in (b"8", b"seven", b"6"):
            await jobs.post(number)

        for _ in range(3):
            job = await anext(jobs)
            try:
                print(f"half of {job.body.decode()} is {int(job.body) // 2}")
            except ValueError as error:
                await failed.post(job.body, {"reason": str(error), "from": "bmq://jobs/halve"})
            await job.confirm()

        dead = await anext(failed)
        print(dead.body.decode(), "failed:", dead.properties["reason"])
        await dead.confirm()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
