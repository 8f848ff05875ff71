"""Every wire of the list is checked, served, and in the configuration."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import fields, replace
from pathlib import Path

import pytest

from headgate.cli.demo import listeners
from headgate.server.check import findings
from headgate.server.config import Config, default_text, load_config
from headgate.server.config.known_keys import KNOWN
from headgate.server.config.sections import Listen
from headgate.server.config.tree import Group
from headgate.server.router import Router
from headgate.server.serve import serve
from headgate.server.state_directory import open_store
from headgate.server.wires.all_wires import WIRES
from headgate.server.wires.names import NAMES
from headgate.server.wires.wire import Wire
from tests.support.certificates import make_certificate
from tests.support.repository import DOCS

pytestmark = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


def listening(folder: Path, wire: Wire, port: int = 0, more: str = "") -> Config:
    path = folder / "headgate.toml"
    path.write_text(
        f'[store]\nurl = "memory:"\n[admin]\nport = 0\n[listen.{wire.name}]\nport = {port}\n{more}'
    )
    return load_config(path, {})


def test_its_section_is_in_the_configuration_and_its_documentation(wire: Wire) -> None:
    listen = KNOWN["listen"]
    assert isinstance(listen, Group)
    section = listen.members[wire.name]
    assert isinstance(section, Group)
    assert section.make is wire.section
    assert [each.name for each in fields(Listen)] == [each.name for each in WIRES]
    assert wire.name in NAMES
    assert len(NAMES) == len(WIRES)
    page = (DOCS / "reference" / "config.md").read_text()
    for text in (default_text(), page):
        assert f"\n[listen.{wire.name}]\n# The address to listen on.\n" in text


def test_its_port_is_checked(wire: Wire, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = listening(tmp_path, wire, taken.getsockname()[1])
        found = {each.name: each for each in findings(config)}
    assert not found[f"listen.{wire.name}"].ok
    free = {each.name: each for each in findings(listening(tmp_path, wire))}
    assert all(each.ok for each in free.values())
    assert "listen" not in free


def test_its_certificates_are_checked(wire: Wire, tmp_path: Path) -> None:
    """Those that sign for clients, too."""
    if wire.section().tls is None and "tls" not in {each.name for each in fields(wire.section)}:
        return  # it has an identity instead
    make_certificate(tmp_path)
    name = f"listen.{wire.name}.tls"

    def is_fine(keys: str) -> bool:
        config = listening(tmp_path, wire, more=f"[{name}]\n{keys}")
        return {each.name: each.ok for each in findings(config)}[name]

    assert is_fine("")
    assert is_fine('client_ca = "server.crt"')
    assert not is_fine('key = "server.crt"')
    assert not is_fine('client_ca = "nowhere.crt"')


async def test_it_opens_where_its_address_says(wire: Wire, tmp_path: Path) -> None:
    config = listening(tmp_path, wire)
    router = Router(store=open_store(config), domains=config.all_domains(), limits=config.limits)
    await router.start()
    try:
        opened = wire.open(router, config)
        try:
            host, port = opened.address
            assert str(port) in opened.url
            assert str(port) in opened.public_url
            opened.reload()
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
        finally:
            opened.close()
    finally:
        await router.stop()


def test_it_is_served_and_in_the_ready_file(wire: Wire, tmp_path: Path) -> None:
    config, ready_file = listening(tmp_path, wire), tmp_path / "ready"
    seen = {}

    async def play(router: Router, addresses: object) -> bool:
        seen.update(json.loads(ready_file.read_text()))
        assert isinstance(addresses, dict)
        assert str(seen[wire.name]["port"]) in addresses[wire.name]
        return False

    serve(config, ready_file, play=play)
    assert set(seen) == {"admin", wire.name}


def test_the_demo_has_it(wire: Wire, tmp_path: Path) -> None:
    config = replace(listening(tmp_path, wire), listen=Listen())
    assert isinstance(listeners(config).each()[wire.name], wire.section)
