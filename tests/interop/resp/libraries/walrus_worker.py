"""walrus: a consumer group of one stream."""

from __future__ import annotations

import sys
import time

from redis.exceptions import ResponseError
from walrus import Database

verb, host, port, word = sys.argv[1:]
database = Database(host=host, port=int(port))
group = database.consumer_group("g", ["orders.walrus"], consumer=word)
stream = group.streams["orders.walrus"]


def handle(id: bytes, fields: dict[bytes, bytes]) -> None:
    print(int(fields[b"number"]), flush=True)
    if verb == "hang":
        time.sleep(600)
    assert stream.ack(id) == 1


if verb == "add":
    for number in range(int(word)):
        stream.add({"kind": "slow" if number % 2 else "express", "number": number})
    sys.exit()
try:
    group.create(ensure_keys_exist=False, mkstream=True)
except ResponseError as error:
    if "BUSYGROUP" not in str(error):
        raise
while True:
    left = [each["message_id"] for each in stream.pending(idle=300)]
    for id, fields in stream.claim(*left, min_idle_time=300) if left else ():
        handle(id, fields)
    for id, fields in stream.read(count=10, block=100) or ():
        handle(id, fields)
