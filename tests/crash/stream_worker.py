"""A consumer of a stream that expects to be killed, and goes on when its router was.

    python -m tests.crash.stream_worker READY STREAM GROUP NAME

READY is the file in which a router says where it is. Every line on standard output is what it
knows, by a clock that all processes have in common:

    got NUMBER ASKED      it was given this entry, which it asked for at that time
    done NUMBER AT        its acknowledgement was answered by then
    wrong TEXT            an entry has not what was put into it
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

LOST = (redis.ConnectionError, redis.TimeoutError)
PAUSE_SECONDS = 0.02
BLOCK_MS = 100
COUNT = 5


def client(ready: Path) -> redis.Redis:
    """A client of the router as it is now, that repeats nothing by itself."""
    try:
        at = json.loads(ready.read_text())["resp"]
    except (FileNotFoundError, ValueError):
        raise redis.ConnectionError("no router is there") from None
    once = Retry(NoBackoff(), 0)
    return redis.Redis(at["host"], at["port"], decode_responses=True, socket_timeout=10, retry=once)


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def take(router: redis.Redis, stream: str, group: str, name: str) -> None:
    """Read, and acknowledge what came."""
    asked = time.monotonic()
    found: Any = router.xreadgroup(group, name, {stream: ">"}, count=COUNT, block=BLOCK_MS)
    entries = [entry for _, some in found or () for entry in some]
    for _, fields in entries:
        if fields["data"] != f"body {fields['n']}":
            say("wrong", fields)
        say("got", fields["n"], asked)
    for id, fields in entries:
        if router.xack(stream, group, id) == 1:
            say("done", fields["n"], time.monotonic())


def main(ready: Path, stream: str, group: str, name: str) -> None:
    while True:
        with suppress(*LOST):
            router = client(ready)
            while True:
                take(router, stream, group, name)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
