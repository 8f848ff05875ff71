"""Somebody who only wants an answer now and then: a process that PINGs every 10 ms.

How long it waited is wall time, which a busy machine lengthens; it is printed and decides nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

from tests.support.repository import ROOT

EVERY_SECONDS = 0.01
WAIT_SECONDS = 60.0


class Innocent:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, place: tuple[str, int]) -> Innocent:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.hold.innocent", place[0], str(place[1])),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        innocent = cls(process)
        await innocent.worst()  # it is there
        return innocent

    async def worst(self) -> float:
        """Seconds of the longest wait since this was asked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.write(b"?\n")
            line = await self._process.stdout.readline()
            return float(line or b"nan")
        return float("nan")

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    worst, asked = 0.0, None
    connected = socket.create_connection((host, port), WAIT_SECONDS)

    def answer() -> None:
        nonlocal worst
        for _ in sys.stdin:
            waited = 0.0 if asked is None else time.monotonic() - asked
            print(max(worst, waited), flush=True)
            worst = 0.0
        os._exit(0)  # nobody asks any longer

    threading.Thread(target=answer, daemon=True).start()
    try:
        while True:
            asked = time.monotonic()
            connected.sendall(b"PING\r\n")
            if connected.recv(100) != b"+PONG\r\n":
                break
            worst, asked = max(worst, time.monotonic() - asked), None
            time.sleep(EVERY_SECONDS)
    except OSError:
        pass
    threading.Event().wait()  # it was shut out, and says how long it waited


if __name__ == "__main__":
    main()
