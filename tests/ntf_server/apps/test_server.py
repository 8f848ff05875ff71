"""Connections of apps: the handshake, blocks, and bounds."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest

from headgate.core import facts as f
from headgate.core.model.limits import Limits
from headgate.ntf_server.apps.session import WAITING_MAX
from headgate.ntf_server.apps.settings import AppSettings
from headgate.wire.ntf import commands as c
from headgate.wire.ntf.address import NTF_PROTOCOL
from headgate.wire.ntf.hello import VERSIONS
from headgate.wire.ntf.transmissions import BLOCK, NtfAnswer, encode_block, encode_request
from headgate.wire.smp.codec.commands import Ping
from headgate.wire.smp.codec.replies import Err, Pong
from tests.support.ntf_app import App, AppKeys, open_stream
from tests.support.ntf_examples import TEST_DEVICE
from tests.support.ntf_scene import AppScene, serving_apps


async def test_the_server_greets_with_its_versions_and_a_signed_key(app: App) -> None:
    assert app.hello.versions == VERSIONS


@pytest.mark.parametrize("version", [0, 1, 4, 65535])
async def test_another_version_is_closed(scene: AppScene, version: int) -> None:
    async with await App.connect(scene.address, version=version) as app:
        assert await app.is_closed()


async def test_who_means_another_server_is_closed(scene: AppScene) -> None:
    async with await App.connect(scene.address, key_hash=bytes(32)) as app:
        assert await app.is_closed()


async def test_who_names_no_protocol_is_closed(scene: AppScene) -> None:
    stream = await open_stream(scene.address, None)
    assert await stream.reader.read() == b""
    stream.abort()


async def test_who_names_another_protocol_has_no_session(scene: AppScene) -> None:
    with pytest.raises(Exception, match=r"(?i)alpn|answers|closed|reset"):
        await open_stream(scene.address, "smp/1")
    assert len(scene.server) == 0


async def test_a_hello_that_cannot_be_read_is_closed(scene: AppScene) -> None:
    stream = await open_stream(scene.address, NTF_PROTOCOL)
    await stream.reader.readexactly(BLOCK)
    stream.write(secrets.token_bytes(BLOCK))
    assert await stream.reader.read() == b""
    stream.abort()


async def test_who_does_not_greet_is_closed(tmp_path: Path) -> None:
    settings = AppSettings(handshake_seconds=0.2)
    async with serving_apps(tmp_path, settings=settings) as scene:
        stream = await open_stream(scene.address, NTF_PROTOCOL)
        await stream.reader.readexactly(BLOCK)
        assert await stream.reader.read() == b""
        stream.abort()
        async with await App.connect(scene.address) as app:
            assert await app.ask(Ping()) == Pong()


async def test_a_bad_transmission_costs_its_neighbours_nothing(app: App) -> None:
    keys = AppKeys()
    asked = [
        app.request(Ping()),
        (b"c" * 24, encode_request(b"", b"c" * 24, b"", b"WHAT")),
        (b"d" * 24, encode_request(b"", b"d" * 24, b"", b"TCHK")),
        app.request(c.TChk(), keys, bytes(24)),
    ]
    app.send([request for _, request in asked])
    answers = await app.answers()
    assert [answer.correlation for answer in answers] == [each for each, _ in asked]
    assert [answer.reply for answer in answers] == [
        Pong(),
        Err("CMD UNKNOWN"),
        Err("CMD NO_AUTH"),
        Err("AUTH"),
    ]


async def test_a_block_that_cannot_be_read_is_answered_and_the_session_goes_on(app: App) -> None:
    app.stream.write(encode_block(b"\x02\x00\x01"))
    assert await app.answers() == [NtfAnswer(b"", b"", Err("BLOCK"))]
    assert await app.ask(Ping()) == Pong()


async def test_blocks_are_answered_in_their_order(app: App) -> None:
    """More than wait at once, and cut anywhere."""
    asked = [app.request(Ping()) for _ in range(5 * WAITING_MAX)]
    for _, request in asked:
        app.send([request])
    answers = [(await app.answers())[0] for _ in asked]
    assert [answer.correlation for answer in answers] == [each for each, _ in asked]


async def test_who_leaves_while_it_is_answered_harms_nobody(scene: AppScene) -> None:
    keys = AppKeys()
    async with await App.connect(scene.address) as app:
        app.send([app.request(keys.new_token(TEST_DEVICE), keys)[1]])
        await app.stream.drain()
    async with await App.connect(scene.address) as other:
        assert await other.ask(Ping()) == Pong()


async def test_connections_are_bounded(tmp_path: Path) -> None:
    settings = AppSettings(connections=2)
    async with (
        serving_apps(tmp_path, settings=settings) as scene,
        await App.connect(scene.address) as first,
    ):
        assert await first.ask(Ping()) == Pong()
        async with await App.connect(scene.address) as second:
            assert await second.ask(Ping()) == Pong()
            with pytest.raises(Exception, match=r"(?i)answers|closed|reset|0 bytes"):
                await App.connect(scene.address)
            assert await first.ask(Ping()) == Pong()
        reached = [fact for fact in scene.facts if isinstance(fact, f.LimitReached)]
    assert {fact.name for fact in reached} == {"ntf.connections"}


async def test_those_who_do_not_greet_are_bounded(tmp_path: Path) -> None:
    """One address has so many of them, and who is known is none of them."""
    limits = Limits(handshakes=2, handshakes_per_address=2)
    async with (
        serving_apps(tmp_path, limits=limits) as scene,
        await App.connect(scene.address) as known,
    ):
        assert await known.ask(Ping()) == Pong()
        silent = [await asyncio.open_connection("127.0.0.1", scene.address.port) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.address.port)
        assert await reader.read() == b""
        assert await known.ask(Ping()) == Pong()
        for _, other in [*silent, (reader, writer)]:
            other.close()


async def test_apps_are_sent_away_when_the_server_stops(tmp_path: Path) -> None:
    async with serving_apps(tmp_path) as scene:
        app = await App.connect(scene.address)
        assert await app.ask(Ping()) == Pong()
    assert await app.is_closed()
    await app.close()
