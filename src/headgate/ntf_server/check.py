"""The check whether a notification server with this configuration could start: one finding per
thing it needs."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headgate.errors import HeadgateError
from headgate.ntf_server.config import NtfConfig
from headgate.ntf_server.from_config import address_of, push_settings
from headgate.ntf_server.pushing.providers import open_providers
from headgate.ntf_server.pushing.sender_keys import KEY_NAME
from headgate.ntf_server.pushing.settings import PushSettings
from headgate.ntf_server.records import Records, Tables, subscriptions, tokens
from headgate.ntf_server.records.view import is_used, view
from headgate.server.check import check_container, check_directory, check_port
from headgate.server.identity import CA_KEY, NEEDED, Identity
from headgate.server.wires.wire import Finding
from headgate.store.backends import backend_of, masked
from headgate.store.private import is_open_to_others

SERVER = "notification server"


def findings(config: NtfConfig) -> Iterator[Finding]:
    """Look at everything that a start needs. Leaves nothing behind."""
    running = _is_running(config)
    source = str(config.source) if config.source else "no file, only defaults and environment"
    warnings = [f"warning: {warning}" for warning in config.warnings]
    yield Finding("config", True, "; ".join([source, *warnings]))
    yield check_directory(config)
    yield _store(config, running)
    yield check_port("admin", config.admin.host, config.admin.port, running, SERVER)
    listen = config.listen.ntf
    yield check_port("listen.ntf", listen.host, listen.port, running, SERVER)
    yield from check_container({"admin": config.admin.host, "listen.ntf": listen.host})
    yield _identity(config)
    yield _providers(config)


def _is_running(config: NtfConfig) -> bool:
    try:
        return is_used(config.ntf.store, config.directory)
    except HeadgateError:
        return False  # what is wrong with the store is a finding of its own


def _store(config: NtfConfig, running: bool) -> Finding:
    url = config.ntf.store
    shown, file = masked(url), backend_of(url).file(url, config.directory)
    if file is not None and not file.exists():
        return Finding("store", True, f"{shown} (will be made)")
    try:
        if not running:
            asyncio.run(_open_and_close(config))
        with view(url, config.directory) as tables:
            counted = _counted(tables)
    except HeadgateError as error:
        return Finding("store", False, f"{shown}: {error}")
    note = "; a server is running and uses it, so it was only read" if running else ""
    if file is not None and is_open_to_others(file):
        note += "; warning: others can read it, and only its owner can change that"
    return Finding("store", True, f"{shown} ({counted}{note})")


async def _open_and_close(config: NtfConfig) -> None:
    async with await Records.open(config.ntf.store, config.directory):
        pass


def _counted(tables: Tables) -> str:
    """The numbers of tokens and subscriptions, in words."""
    numbers = {
        "token": sum(tokens.counts(tables).values()),
        "subscription": sum(subscriptions.counts(tables).values()),
    }
    return ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for what, n in numbers.items())


def _identity(config: NtfConfig) -> Finding:
    folder = config.identity
    if not any((folder / name).exists() for name in (*NEEDED, CA_KEY)):
        return Finding("identity", True, f"{folder} (will be made)")
    try:
        identity = Identity.load(folder, time.time())
    except HeadgateError as error:
        return Finding("identity", False, str(error))
    return Finding("identity", True, address_of(config, identity).text)


def _providers(config: NtfConfig) -> Finding:
    settings = push_settings(config)
    with tempfile.TemporaryDirectory() as folder:
        web_push = settings.web_push
        if web_push is not None and not (config.directory / KEY_NAME).exists():
            # Its key will be made at the first start.
            settings = replace(settings, web_push=replace(web_push, folder=Path(folder)))
        try:
            names = asyncio.run(_opened(settings))
        except HeadgateError as error:
            return Finding("providers", False, str(error))
    return Finding("providers", True, ", ".join(sorted(names)))


async def _opened(settings: PushSettings) -> list[str]:
    providers = open_providers(settings)
    for each in providers.values():
        await each.close()
    return [each.name.lower() for each in providers]
