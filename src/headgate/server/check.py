"""Whether a router with this configuration could start: one finding per thing it needs."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import HeadgateError
from headgate.server.config import Config
from headgate.server.identity import Identity
from headgate.server.listener import bind
from headgate.server.serve import (
    database,
    file_descriptors,
    is_durable,
    is_running,
    make_directory,
    open_store,
    sessions_possible,
)
from headgate.server.tls import server_context
from headgate.store.urls import masked


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the check: what was looked at, whether it is fine, and what to know or do."""

    name: str
    ok: bool
    text: str


def findings(config: Config) -> Iterator[Finding]:
    """Look at everything that a start needs. Leaves nothing behind but a new database."""
    running = is_running(config)
    yield Finding("config", True, _config(config))
    yield _directory(config)
    yield _store(config, running)
    yield _port("admin", config.admin.host, config.admin.port, running)
    resp = config.listen.resp
    if resp is not None:
        yield _port("listen.resp", resp.host, resp.port, running)
    smp = config.listen.smp
    if smp is not None:
        yield _port("listen.smp", smp.host, smp.port, running)
        yield _identity(config)
    yield _certificate(config)
    yield _descriptors(config)


def _config(config: Config) -> str:
    source = str(config.source) if config.source else "no file, only defaults and environment"
    count = len(config.domains)
    parts = [f"{source} ({count} domain{'' if count == 1 else 's'})"]
    return "; ".join([*parts, *(f"warning: {w}" for w in config.warnings)])


def _directory(config: Config) -> Finding:
    if not is_durable(config):
        return Finding("directory", True, "not needed")
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
        queues = _queues(path)
    except (HeadgateError, sqlite3.Error) as error:
        return Finding("store", False, f"{url}: {error}")
    counted = f"{queues} queue{'' if queues == 1 else 's'}"
    note = "; a router is running and uses it, so it was only read" if running else ""
    return Finding("store", True, f"{url} ({counted}{note})")


def _database(config: Config, url: str, running: bool) -> Finding:
    """A database that others serve: whether we may use it."""
    if running:
        return Finding("store", True, f"{url} (a router is running and uses it)")
    try:
        asyncio.run(_open_and_close(config))
    except HeadgateError as error:
        return Finding("store", False, f"{url}: {error}")
    return Finding("store", True, url)


async def _open_and_close(config: Config) -> None:
    store = open_store(config)
    try:
        await store.open()
    finally:
        await store.close()


def _queues(path: Path) -> int:
    address = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=5)) as db:
        count: int = db.execute("SELECT count(*) FROM queues").fetchone()[0]
    return count


def _port(name: str, host: str, port: int, running: bool) -> Finding:
    where = f"{host} port {port or '0 (any free one)'}"
    try:
        bind(name, host, port).close()
    except HeadgateError as error:
        if running and _answers(host, port):
            return Finding(name, True, f"{where}: a router is running and listens there")
        return Finding(name, False, str(error))
    return Finding(name, True, f"{where} is free")


def _certificate(config: Config) -> Finding:
    resp = config.listen.resp
    if resp is None or resp.tls is None:
        return Finding("certificate", True, "not needed")
    certificate = config.directory / resp.tls.certificate
    try:
        server_context(certificate, config.directory / resp.tls.key)
    except HeadgateError as error:
        return Finding("certificate", False, str(error))
    return Finding("certificate", True, f"{certificate} can be used")


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def _identity(config: Config) -> Finding:
    folder = config.directory / config.smp.identity
    if not folder.exists():
        return Finding("identity", True, f"{folder} (will be made)")
    try:
        identity = Identity.load(folder, time.time())
    except HeadgateError as error:
        return Finding("identity", False, str(error))
    return Finding("identity", True, f"{folder} ({identity.fingerprint_text})")


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
