"""Parts of a server and its providers, by the configuration."""

from __future__ import annotations

import socket
from pathlib import Path

from headgate.journal.sealer_process import JournalSettings
from headgate.ntf_server.config import Apns, NtfConfig
from headgate.ntf_server.pushing.settings import ApnsSettings, PushSettings, WebPushSettings
from headgate.ntf_server.records.places import SCHEMA
from headgate.server.identity import Identity, kept_host
from headgate.store.backends import backend_of
from headgate.wire.ntf.address import NtfAddress


def host_name(config: NtfConfig) -> str:
    """The name by which apps reach the server: what ``headgate ntf init`` was given, or else that
    of this machine."""
    return kept_host(config.identity) or socket.gethostname()


def address_of(config: NtfConfig, identity: Identity, port: int | None = None) -> NtfAddress:
    """The address for apps. A port that was drawn is not in the configuration."""
    known = config.listen.ntf.port if port is None else port
    return NtfAddress((_written(host_name(config)),), known, identity.fingerprint)


def push_settings(config: NtfConfig) -> PushSettings:
    """The providers that are to be opened."""
    apns = config.ntf.apns
    web_push = web_push_settings(config) if config.ntf.webpush.enabled else None
    return PushSettings(web_push, None if apns is None else _apns_settings(apns))


def web_push_settings(config: NtfConfig) -> WebPushSettings:
    web_push = config.ntf.webpush
    return WebPushSettings(
        web_push.contact or f"https://{_written(host_name(config))}",
        config.directory,
        _path(web_push.key),
        frozenset(web_push.allow_private),
        _path(web_push.ca),
    )


def journal_settings(config: NtfConfig) -> JournalSettings | None:
    """Where and how the journal is kept, if it is."""
    journal = config.journal
    if not journal.enabled:
        return None
    return JournalSettings(
        config.directory / journal.directory,
        journal.segment_size,
        journal.keep,
        journal.max_bytes,
        SCHEMA,
    )


def lock_file(config: NtfConfig) -> Path | None:
    """The file that a server with this store has locked, if the store is a file."""
    return backend_of(config.ntf.store).lock_file(config.ntf.store, config.directory)


def _apns_settings(apns: Apns) -> ApnsSettings:
    return ApnsSettings(
        Path(_given(apns.key)),
        _given(apns.key_id),
        _given(apns.team),
        _given(apns.topic),
        sandbox=apns.sandbox,
        test_url=apns.test_url,
        ca_file=_path(apns.ca),
    )


def _given(text: str | None) -> str:
    assert text is not None, "a section that was read is complete"
    return text


def _written(host: str) -> str:
    """As a URL has it."""
    return f"[{host}]" if ":" in host else host


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
