"""The check whether a router with this configuration could start: one finding per thing it
needs."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from headgate import compiled
from headgate.errors import HeadgateError
from headgate.server.config import Config
from headgate.server.config.hosts import is_loopback
from headgate.server.config.sections import ListenSection, ServerConfig, Tls
from headgate.server.container import is_in_container
from headgate.server.file_descriptors import file_descriptors, sessions_possible
from headgate.server.mode_check import check_modes, check_modes_of_file
from headgate.server.net.listener import bind
from headgate.server.net.tls import server_context
from headgate.server.serve import NO_LISTENER
from headgate.server.standby import identify
from headgate.server.state_directory import (
    database,
    is_durable,
    is_running,
    make_directory,
    open_store,
)
from headgate.server.wires.all_wires import WIRES
from headgate.server.wires.wire import Finding, Wire
from headgate.store.backends import backend_of, masked
from headgate.store.private import is_open_to_others


def findings(config: Config) -> Iterator[Finding]:
    """Look at everything that a start needs. Leaves nothing behind but a new database."""
    running = is_running(config)
    yield Finding("config", True, _config(config))
    if is_durable(config):
        yield check_directory(config)
    else:
        yield Finding("directory", True, "not needed")
    yield _store(config, running)
    if config.store.standby:
        yield _standby(config)
    yield check_port("admin", config.admin.host, config.admin.port, running)
    for wire in WIRES:
        listen = wire.listen(config)
        if listen is not None:
            yield from _listener(wire, listen, config, running)
    if not config.listen.each():
        yield Finding("listen", True, f"warning: {NO_LISTENER}")
    hosts = {f"listen.{name}": each.host for name, each in config.listen.each().items()}
    yield from check_container({"admin": config.admin.host, **hosts})
    yield _descriptors(config)
    yield Finding("compiled", True, compiled.described())


def _listener(
    wire: Wire, listen: ListenSection, config: Config, running: bool
) -> Iterator[Finding]:
    """The findings about a listener: first those of every wire, then those of its own."""
    section = f"listen.{wire.name}"
    yield check_port(section, listen.host, listen.port, running)
    if listen.tls is not None:
        yield _certificate(f"{section}.tls", config, listen.tls)
    yield from wire.check(config)


def _config(config: Config) -> str:
    source = str(config.source) if config.source else "no file, only defaults and environment"
    count = len(config.domains)
    parts = [f"{source} ({count} domain{'' if count == 1 else 's'})"]
    return "; ".join([*parts, *(f"warning: {w}" for w in config.warnings)])


def check_directory(config: ServerConfig) -> Finding:
    """Whether the state directory can be written, or made."""
    existing = config.directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        if existing == config.directory:
            make_directory(config)
        elif not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
            return Finding(
                "directory",
                False,
                f"{config.directory} cannot be made in {existing}: change its rights,"
                " or set directory in the configuration",
            )
    except HeadgateError as error:
        return Finding("directory", False, str(error))
    new = "" if existing == config.directory else " (will be made)"
    return Finding("directory", True, f"{config.directory}{new}")


def _store(config: Config, running: bool) -> Finding:
    url, path = masked(config.store.url), database(config)
    if not is_durable(config):
        return Finding("store", True, f"{url} (forgets everything when the router stops)")
    if path is None:
        return _database(config, url, running)
    if not path.exists():
        return Finding("store", True, f"{url} (will be made)")
    try:
        if not running:
            asyncio.run(_open_and_close(config))
        queues = _queues(path, config)
    except (HeadgateError, sqlite3.Error) as error:
        return Finding("store", False, f"{url}: {error}")
    counted = f"{queues} queue{'' if queues == 1 else 's'}"
    note = "; a router is running and uses it, so it was only read" if running else ""
    if is_open_to_others(path):
        note += "; warning: others can read it, and only its owner can change that"
    return Finding("store", True, f"{url} ({counted}{note})")


def _database(config: Config, url: str, running: bool) -> Finding:
    """A database that others serve: whether we may use it, and what its server could lose."""
    if running:
        return Finding("store", True, f"{url} (a router is running and uses it)")
    look = backend_of(config.store.url).survey
    assert look is not None, "a store that is no file is in a database"
    try:
        seen = look(config.store.url, config.store.standby)
        if seen.owner is None or not config.store.standby:
            asyncio.run(_open_and_close(config))
    except HeadgateError as error:
        return Finding("store", False, f"{url}: {error}")
    return Finding("store", True, "; ".join([url, *(f"warning: {w}" for w in seen.warnings)]))


def _standby(config: Config) -> Finding:
    """Whether this router would wait, and whether clients would know it."""
    look = backend_of(config.store.url).survey
    assert look is not None, "only such a store is waited for"
    try:
        seen = look(config.store.url, True)
        if seen.fingerprint is not None:
            identify(config, seen.fingerprint, False)
    except HeadgateError as error:
        return Finding("standby", False, str(error))
    if seen.owner is None:
        return Finding("standby", True, "nobody has the store: this router would serve")
    return Finding("standby", True, f"{seen.owner} has the store: this router would wait")


async def _open_and_close(config: Config) -> None:
    store = open_store(config)
    try:
        await store.open()
        await check_modes(store, config.all_domains())
    finally:
        await store.close()


def _queues(path: Path, config: Config) -> int:
    """The number of stored queues. Their messages have to fit the modes of their domains."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=5)) as db:
        check_modes_of_file(db, config.all_domains())
        count: int = db.execute("SELECT count(*) FROM queues").fetchone()[0]
    return count


def check_port(name: str, host: str, port: int, running: bool, server: str = "router") -> Finding:
    """Whether the port is free, or taken by the server that is running."""
    where = f"{host} port {port or '0 (any free one)'}"
    try:
        bind(name, host, port).close()
    except HeadgateError as error:
        if running and _answers(host, port):
            return Finding(name, True, f"{where}: a {server} is running and listens there")
        return Finding(name, False, str(error))
    return Finding(name, True, f"{where} is free")


def check_container(hosts: Mapping[str, str]) -> Iterator[Finding]:
    """Inside a container, which sections listen where only the container itself comes."""
    inside = [section for section, host in hosts.items() if is_loopback(host)]
    if inside and is_in_container():
        text = "warning: {} on loopback inside a container, where nobody outside reaches it: {}"
        variables = (f"HEADGATE_{name.upper().replace('.', '__')}__HOST=0.0.0.0" for name in inside)
        advice = f"set host, or {' '.join(variables)}"
        yield Finding("container", True, text.format(", ".join(inside), advice))


def _certificate(name: str, config: Config, tls: Tls) -> Finding:
    certificate = config.directory / tls.certificate
    client_ca = None if tls.client_ca is None else config.directory / tls.client_ca
    try:
        server_context(certificate, config.directory / tls.key, client_ca)
    except HeadgateError as error:
        return Finding(name, False, str(error))
    return Finding(name, True, f"{certificate} can be used")


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def _descriptors(config: Config) -> Finding:
    allowed, needed = file_descriptors(config)
    if allowed >= needed:
        return Finding("files", True, f"{allowed} file descriptors are allowed, {needed} needed")
    return Finding(
        "files",
        True,
        f"{allowed} file descriptors are allowed: at most {sessions_possible(config)} sessions; for"
        " more raise ulimit -n (LimitNOFILE= in systemd)",
    )
