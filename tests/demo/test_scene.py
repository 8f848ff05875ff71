"""The scene of `headgate demo`."""

from __future__ import annotations

from pathlib import Path

from headgate.core.model.limits import Limits
from headgate.demo import scene
from headgate.server.config.sections import ListenBmq
from headgate.server.router import Router
from headgate.server.wires.bmq import BmqServer
from headgate.store.memory import MemoryStore


async def test_the_scene_says_who_received_what_and_why_twice_over(tmp_path: Path) -> None:
    router = Router(store=MemoryStore(), domains=scene.DOMAINS, limits=Limits())
    await router.start()
    server = BmqServer(router, ListenBmq(port=0), tmp_path)
    address = "tcp://{}:{}".format(*server.address)
    lines: list[str] = []

    async def play() -> None:
        await scene.play(router, lines.append)
        await scene.orders(address, lines.append, lambda queue, properties: [queue])

    await play()
    once = list(lines)
    await play()
    assert lines == once * 2
    text = "\n".join(once)
    assert "tablet received  'see you at six': the phone had not confirmed it" in text
    assert "anna received    'rain tomorrow on news'" in text
    assert "express received 'one kidney': kind == \"express\" is true" in text
    assert "rest    received 'one book': nobody with a higher priority wants it" in text
    assert "auditor received 'a piano'" in text
    assert once[-1] == "  bmq://scene.orders/incoming"
    assert router.gauges()["backlog_messages"] == 0
    server.close()
    await router.stop()
