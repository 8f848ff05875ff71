"""An act of the scene: clients of two wires meet at one queue.

An entry of a Redis client reaches a BlazingMQ client by its expression, and a message that this one
posts reaches a Redis client by its own. Their router is one of the act's own, beside the one that
serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.client.bmq import Client, Subscription
from headgate.client.resp import RespClient
from headgate.core.model.domain import Domain
from headgate.core.model.limits import Limits
from headgate.server.config.sections import ListenBmq, ListenResp
from headgate.server.router import Router
from headgate.server.wires.bmq import BmqServer
from headgate.server.wires.resp import RespServer
from headgate.store import open_store

Show = Callable[[str], None]

SECONDS_MAX = 30.0
STREAM = "orders"
QUEUE = f"bmq://scene.shop/{STREAM}"
DOMAIN = Domain.fanout("scene.shop", "shipping", streams=(STREAM,))
HEAVY = "amount >= 1000"
WORKER = 'worker?where=kind == "express"'


async def meeting(show: Show) -> None:
    """An order from each side, and who gets it."""
    show("Two wires, one queue: a Redis stream is a queue that BlazingMQ's clients know")
    async with asyncio.timeout(SECONDS_MAX), AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="headgate-scene-")))
        store = open_store("sqlite:queues.db", folder)
        router = Router(store=store, domains={DOMAIN.name: DOMAIN}, limits=Limits())
        await router.start()
        stack.push_async_callback(router.stop)
        resp = RespServer(router, ListenResp(port=0), folder)
        stack.callback(resp.close)
        bmq = BmqServer(router, ListenBmq(port=0), folder)
        stack.callback(bmq.close)
        redis = await asyncio.to_thread(RespClient, *resp.address)
        stack.callback(redis.close)
        client = await stack.enter_async_context(await Client.connect(bmq.url, name="warehouse"))
        wanted = Subscription(HEAVY, 1, max_unconfirmed_messages=10)
        uri = f"{QUEUE}?id=shipping"
        queue = await client.open(uri, read=True, write=True, subscriptions=[wanted])
        show(f"  warehouse        reads {uri} with {HEAVY}, over BMQP")
        words = ("XADD", STREAM, "*", "kind", "standard", "amount", "4000", "data", "a piano")
        await asyncio.to_thread(redis.ask, *words)
        show("  a Redis client   XADD orders * kind standard amount 4000 data 'a piano'")
        delivery = await anext(queue)
        show(f"  warehouse        received {delivery.body.decode()!r}: {HEAVY} is true")
        await delivery.confirm()
        await queue.post(b"one kidney", {"kind": "express", "amount": 90})
        show("  warehouse        posted 'one kidney' with kind='express', amount=90")
        read = ("XREADGROUP", "GROUP", "shipping", WORKER, "BLOCK", "0", "STREAMS", STREAM, ">")
        [[_, [[id, fields]]]] = await asyncio.to_thread(redis.ask, *read)
        show(f"  {WORKER}")
        show(f"                   received {fields[-1].decode()!r} with XREADGROUP, over RESP")
        await asyncio.to_thread(redis.ask, "XACK", STREAM, "shipping", id)
