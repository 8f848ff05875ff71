"""The scene of `headgate demo`."""

from __future__ import annotations

from headgate.core.limits import Limits
from headgate.server import scene
from headgate.server.router import Router
from headgate.store.memory import MemoryStore


async def test_the_scene_says_who_received_what_and_why_twice_over() -> None:
    router = Router(store=MemoryStore(), domains=scene.DOMAINS, limits=Limits())
    await router.start()
    lines: list[str] = []
    await scene.play(router, lines.append)
    once = list(lines)
    await scene.play(router, lines.append)
    assert lines == once * 2
    text = "\n".join(once)
    assert "tablet received  'see you at six': the phone had not confirmed it" in text
    assert "anna received    'rain tomorrow on news'" in text
    assert "express received 'one kidney': kind == \"express\" is true" in text
    assert "auditor received 'a piano'" in text
    assert "auditor received 'one book'" not in text
    assert router.gauges()["backlog_messages"] == 0
    await router.stop()
