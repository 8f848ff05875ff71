"""Which providers a server has, by its settings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headgate.errors import ConfigError
from headgate.ntf_server.pushing import providers
from headgate.ntf_server.pushing.provider import PushProvider
from headgate.ntf_server.pushing.providers import open_providers, web_push_public_key
from headgate.ntf_server.pushing.sender_keys import KEY_NAME, kept_key, read_key
from headgate.ntf_server.pushing.settings import ApnsSettings, PushSettings, WebPushSettings
from headgate.wire.ntf.devices import Provider


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def opened(settings: PushSettings, stack: AsyncExitStack) -> dict[Provider, PushProvider]:
    found = open_providers(settings)
    for provider in found.values():
        stack.push_async_callback(provider.close)
    return found


async def test_a_server_has_what_its_settings_name(tmp_path: Path, stack: AsyncExitStack) -> None:
    kept_key(tmp_path)
    web_push = WebPushSettings("https://push.example.org", tmp_path)
    apns = ApnsSettings(tmp_path / KEY_NAME, "KEY", "TEAM", "topic")
    both = PushSettings(web_push, apns)
    test = replace(apns, sandbox=True, test_url="https://127.0.0.1:1")
    for settings, expected in (
        (PushSettings(), {Provider.NULL}),
        (PushSettings(null=False), set[Provider]()),
        (PushSettings(web_push), {Provider.NULL, Provider.WEB_PUSH}),
        (both, {Provider.NULL, Provider.WEB_PUSH, Provider.APNS}),
        (replace(both, apns=test), set(Provider)),
    ):
        assert set(opened(settings, stack)) == expected


async def test_the_key_is_made_once_and_for_its_owner_alone(
    tmp_path: Path, stack: AsyncExitStack
) -> None:
    """Nothing has to be configured but whom push services may write to."""
    settings = WebPushSettings("https://push.example.org", tmp_path / "state")
    opened(PushSettings(settings), stack)
    [file] = (tmp_path / "state").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    first = web_push_public_key(settings)
    opened(PushSettings(settings), stack)
    assert web_push_public_key(settings) == first
    named = replace(settings, folder=tmp_path / "other", key_file=file)
    assert web_push_public_key(named) == first
    assert not (tmp_path / "other").exists()


def test_of_two_who_make_a_key_the_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept_key(tmp_path).private_numbers()
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert kept_key(tmp_path).private_numbers() == first
    assert len([*tmp_path.iterdir()]) == 1


def test_a_key_that_is_none_is_not_replaced(tmp_path: Path) -> None:
    settings = WebPushSettings("https://push.example.org", tmp_path)
    path = tmp_path / KEY_NAME
    path.write_text("no key")
    with pytest.raises(ConfigError, match="not a private key in PEM"):
        open_providers(PushSettings(settings))
    other = generate_private_key(SECP384R1())
    path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ConfigError, match="not a key of P-256"):
        open_providers(PushSettings(settings))
    with pytest.raises(ConfigError, match="cannot be read"):
        read_key(tmp_path / "missing")


def test_a_key_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        kept_key(tmp_path / "file")


@pytest.mark.parametrize("contact", ["", "ops@example.org", "https://a b", 'mailto:"'])
def test_a_contact_is_an_address(tmp_path: Path, contact: str) -> None:
    with pytest.raises(ConfigError, match="mailto: or https://"):
        open_providers(PushSettings(WebPushSettings(contact, tmp_path)))


@pytest.mark.parametrize("url", ["http://127.0.0.1", "127.0.0.1:443", "https://", "https://a/?b"])
def test_a_test_url_is_one(tmp_path: Path, url: str) -> None:
    kept_key(tmp_path)
    settings = ApnsSettings(tmp_path / KEY_NAME, "KEY", "TEAM", "topic", test_url=url)
    with pytest.raises(ConfigError, match="begins with https"):
        open_providers(PushSettings(apns=settings))


@pytest.mark.parametrize("name", ["key_id", "team", "topic"])
@pytest.mark.parametrize("text", ["", "a\r\nb", "ä"])
def test_what_becomes_a_header_is_text(tmp_path: Path, name: str, text: str) -> None:
    kept_key(tmp_path)
    words: dict[str, Any] = {"key_id": "KEY", "team": "TEAM", "topic": "topic"} | {name: text}
    wrong = ApnsSettings(tmp_path / KEY_NAME, **words)
    with pytest.raises(ConfigError, match=name):
        open_providers(PushSettings(apns=wrong))


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is looked for when a provider needs it, and not before."""
    monkeypatch.setitem(sys.modules, "h2", None)
    settings = WebPushSettings("https://push.example.org", tmp_path)
    with pytest.raises(ConfigError, match=r"pip install 'headgate\[push\]'"):
        open_providers(PushSettings(settings))
    assert set(open_providers(PushSettings())) == {Provider.NULL}


def test_nothing_of_http_is_imported_before() -> None:
    code = (
        f"import sys, {providers.__name__}, headgate.ntf_server.server;"
        "sys.exit(bool({'httpx', 'h2', 'httpcore'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
