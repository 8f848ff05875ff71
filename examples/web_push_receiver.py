"""A program that is not connected, and wakes when a push says that there is something to read.

    ROUTER=smp://... NTF=ntf://... ENDPOINT=https://app.example.org/push \
        hypercorn web_push_receiver:app --bind 0.0.0.0:443 --certfile app.crt --keyfile app.key

Any server of ASGI will do. It prints the address of its queue, and then what is sent there with
`notify=True`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.agent import Agent, WebPushReceiver

ROUTER, NTF, ENDPOINT = (os.environ[name] for name in ("ROUTER", "NTF", "ENDPOINT"))
receiver = WebPushReceiver.open("receiver.key")


@asynccontextmanager
async def running(app: Starlette) -> AsyncIterator[None]:
    # Nothing is subscribed: between two pushes there is no connection.
    async with Agent.open("sleeper.db", routers=[ROUTER], subscribe=False) as agent:
        app.state.agent, app.state.registered = agent, asyncio.Event()
        print((await agent.queue("inbox")).address.text, flush=True)
        registering = asyncio.create_task(register(app.state))
        yield
        registering.cancel()


async def register(state: State) -> None:
    device = receiver.device(ENDPOINT)
    state.token = await state.agent.push_token(NTF, device)
    state.registered.set()
    if state.token.is_verified:  # since an earlier run
        await watch(state)
    while not state.token.is_verified:
        await asyncio.sleep(15)
        state.token = await state.agent.push_token(NTF, device)  # a code that was lost comes again


async def watch(state: State) -> None:
    await state.agent.notify(state.token)
    print("ready", flush=True)


async def take(request: Request) -> Response:
    state, push = request.app.state, receiver.decrypt(await request.body())
    await state.registered.wait()
    if not state.token.is_verified:
        state.token = await state.agent.verify(state.token, push)
        await watch(state)
        return Response(status_code=201)
    for notice in await state.agent.open_push(state.token, push):
        queue = await state.agent.queue(notice.queue.name)
        while message := await state.agent.fetch(queue):
            print(message.body.decode(), flush=True)
            await message.ack()
    return Response(status_code=201)


app = Starlette(routes=[Route("/push", take, methods=["POST"])], lifespan=running)
