"""The instrument tells who held the loop, and for how much of its CPU."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.hold.case import Case, Stage, play
from tests.hold.instrument import UNITS, name_of, place_of, work
from tests.hold.router import Ended, Router
from tests.support.repository import ROOT


def told(program: str) -> list[str]:
    """What a program prints that has the instrument in its process."""
    head = """
        import asyncio, socket, time
        from headgate.server.net.poller import READ
        from tests.hold.instrument import install, work
        instrument = install()
        from headgate.server.net.poller import Loop

        def burn(units):
            before = time.thread_time()
            work(units * 20_000)
            return time.thread_time() - before
    """
    text = textwrap.dedent(head) + textwrap.dedent(program)
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return ran.stdout.splitlines()


def test_what_one_callback_takes_is_a_slice_and_all_callbacks_of_a_pass_are_a_pass() -> None:
    lines = told("""
        async def main():
            loop = asyncio.get_running_loop()
            await asyncio.sleep(0)
            took = []
            instrument.reset()
            for units in (2, 3, 2):
                loop.call_soon(lambda units=units: took.append(burn(units)))
            await asyncio.sleep(0.01)
            seen = instrument.seen
            print(seen.passed.cpu >= sum(took) > seen.sliced.cpu >= max(took))
            print(seen.sliced.name)

        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(main())
    """)
    assert lines[0] == "True"
    assert "main.<locals>.<lambda>" in lines[1]


def test_each_socket_that_is_served_is_a_slice() -> None:
    lines = told("""
        async def main():
            loop, took = asyncio.get_running_loop(), []
            pairs = [socket.socketpair() for _ in range(3)]
            for ours, _ in pairs:
                def ready(events, ours=ours):
                    ours.recv(1)
                    took.append(burn(2))
                loop.poller.add(ours.fileno(), ready, READ)
            await asyncio.sleep(0)
            instrument.reset()
            for _, theirs in pairs:
                theirs.send(b"x")
            await asyncio.sleep(0.2)
            seen = instrument.seen
            print(len(took), seen.passed.cpu >= sum(took), seen.sliced.cpu < sum(took))
            print(seen.sliced.name)

        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(main())
    """)
    assert lines[0] == "3 True True"
    assert "ready" in lines[1]


def test_what_is_done_soon_is_slices() -> None:
    lines = told("""
        async def main():
            loop, took = asyncio.get_running_loop(), []
            ours, theirs = socket.socketpair()
            def ready(events):
                ours.recv(1)
                for _ in range(3):
                    loop.poller.soon(lambda: took.append(burn(2)))
            loop.poller.add(ours.fileno(), ready, READ)
            await asyncio.sleep(0)
            instrument.reset()
            theirs.send(b"x")
            await asyncio.sleep(0.2)
            seen = instrument.seen
            print(len(took), seen.passed.cpu >= sum(took), seen.sliced.cpu < sum(took))

        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(main())
    """)
    assert lines == ["3 True True"]


def test_waiting_is_no_hold() -> None:
    lines = told("""
        async def main():
            await asyncio.sleep(0)
            instrument.reset()
            time.sleep(0.5)
            await asyncio.sleep(0.3)
            print(instrument.seen.passed.cpu < 0.25)

        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(main())
    """)
    assert lines == ["True"]


def test_the_fixed_work_is_fixed() -> None:
    assert work(UNITS) == work(UNITS)


def test_names_are_those_of_the_code() -> None:
    async def waits() -> None:
        await asyncio.sleep(0)

    async def main() -> str:
        task = asyncio.create_task(waits())
        name = name_of(task.cancel)
        await asyncio.gather(task, return_exceptions=True)
        return name

    assert name_of(Router.settle) == "Router.settle"
    assert asyncio.run(main()).endswith("waits")
    assert place_of(None) == ""


@pytest.mark.timeout(300)
def test_a_router_with_the_instrument_serves_and_a_case_is_measured(tmp_path: Path) -> None:
    async def asks(stage: Stage) -> AsyncIterator[None]:
        client = await stage.resp()
        yield
        stage.outcome = str(await client.ask(b"PING"))

    async def main() -> None:
        router = Router(tmp_path / "router")
        await router.start()
        try:
            case = Case("resp", "a PING", "once", asks)
            result = await play(case, router)
        finally:
            await router.stop()
        assert result.outcome == "b'PONG'"
        assert not result.is_ended
        assert result.sent.hold > 0
        assert result.sent.slice <= result.sent.hold <= result.sent.total
        with pytest.raises(Ended):
            await router.ask("report")

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_a_router_that_dies_is_told_of(tmp_path: Path) -> None:
    async def kills(stage: Stage) -> AsyncIterator[None]:
        await stage.resp()
        yield
        await stage.router.stop()

    async def main() -> None:
        router = Router(tmp_path / "router")
        await router.start()
        result = await play(Case("resp", "an end", "once", kills), router)
        assert result.is_ended
        assert result.is_over

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_a_case_that_cannot_be_played_is_told_of(tmp_path: Path) -> None:
    async def fails(stage: Stage) -> AsyncIterator[None]:
        await stage.resp()
        raise AssertionError("not so many keys")
        yield

    async def main() -> None:
        router = Router(tmp_path / "router")
        await router.start()
        try:
            result = await play(Case("resp", "no case", "nothing", fails), router)
        finally:
            await router.stop()
        assert result.is_over
        assert "not so many keys" in result.outcome

    asyncio.run(main())
