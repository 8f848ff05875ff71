"""redis-py: groups by hand, and XAUTOCLAIM."""

from __future__ import annotations

import sys
import time
from typing import Any

import redis

verb, host, port, word = sys.argv[1:]
client: Any = redis.Redis(host, int(port), protocol=3, decode_responses=True)


def handle(id: str, fields: dict[str, str]) -> None:
    print(fields["number"], flush=True)
    if verb == "hang":
        time.sleep(600)
    client.xack("orders.redis", "g", id)


if verb == "add":
    for number in range(int(word)):
        kind = "slow" if number % 2 else "express"
        client.xadd("orders.redis", {"kind": kind, "number": str(number)})
    sys.exit()
try:
    client.xgroup_create("orders.redis", "g", "$", mkstream=True)
except redis.ResponseError as error:
    if "BUSYGROUP" not in str(error):
        raise
while True:
    _, claimed, _ = client.xautoclaim("orders.redis", "g", word, 300, "0-0", count=10)
    for id, fields in claimed:
        handle(id, fields)
    for entries in client.xreadgroup("g", word, {"orders.redis": ">"}, 10, 100).values():
        for id, fields in entries[0]:
            handle(id, fields)
