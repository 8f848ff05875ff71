"""The configuration of a notification server: a file of its own, read as the router's is."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.ntf_server.config import (
    ADMIN_PORT,
    KNOWN,
    NtfConfig,
    default_text,
    load_ntf_config,
)
from headgate.ntf_server.from_config import (
    address_of,
    host_name,
    journal_settings,
    push_settings,
)
from headgate.server.config.default import attribute_docs
from headgate.server.config.sections import Admin
from headgate.server.config.tree import Group, Key
from headgate.server.identity import Identity, keep_host

APNS = """\
[ntf.apns]
key = "AuthKey.p8"
key_id = "ABC123DEFG"
team = "TEAM123456"
topic = "org.example.app"
"""


def load(folder: Path, text: str = "", **environ: str) -> NtfConfig:
    path = folder / "ntf.toml"
    path.write_text(text)
    return load_ntf_config(path, environ)


def wrong(folder: Path, text: str = "", **environ: str) -> str:
    with pytest.raises(ConfigError) as error:
        load(folder, text, **environ)
    return str(error.value).removeprefix(f"{folder / 'ntf.toml'}: ")


def keys(
    members: Mapping[str, Key | Group], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Key, type]]:
    for name, member in members.items():
        if isinstance(member, Group):
            for inner, key in member.members.items():
                if isinstance(key, Key):
                    assert member.source is not None
                    yield (*path, name, inner), key, member.source
            nested = {n: m for n, m in member.members.items() if isinstance(m, Group)}
            yield from keys(nested, (*path, name))


def test_nothing_is_needed(tmp_path: Path) -> None:
    """What is not set is what works on one machine: loopback, SQLite, a key that is made."""
    config = load(tmp_path)
    assert config.listen.ntf.host == config.admin.host == "127.0.0.1"
    assert config.listen.ntf.port > 1023, "ports below are for root"
    assert config.admin.port == ADMIN_PORT != Admin().port
    assert config.ntf.store == "sqlite:ntf.db"
    assert config.directory == tmp_path / "ntf"
    assert config.warnings == ()
    assert load_ntf_config(None, {}).directory == Path.cwd() / "ntf"


def test_the_default_file_is_what_nothing_is(tmp_path: Path) -> None:
    text = default_text()
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert load(tmp_path, text).ntf == load(tmp_path, bare).ntf == load(tmp_path).ntf


def test_every_key_can_be_uncommented(tmp_path: Path) -> None:
    lines = [
        line[1:] if line.startswith("#") and not line.startswith("# ") else line
        for line in default_text().splitlines()
    ]
    text = "\n".join(line for line in lines if "token = " not in line)
    tomllib.loads(text)
    assert load(tmp_path, text).ntf.apns is not None


def test_every_key_has_its_text() -> None:
    found = list(keys(KNOWN))
    assert len(found) > 25
    for path, _, source in found:
        assert attribute_docs(source).get(path[-1]), path


def test_the_sections_have_these_keys() -> None:
    named = {".".join(path) for path, _, _ in keys(KNOWN)}
    for section, names in {
        "listen.ntf": "host port",
        "ntf": "store services trust_tally periodic",
        "ntf.webpush": "contact key allow_private",
        "ntf.apns": "key key_id team topic sandbox test_url",
    }.items():
        assert {f"{section}.{name}" for name in names.split()} <= named


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[ntf]\nstores = 1", "ntf.stores: unknown key; did you mean store?"),
        ("[nft]\nstore = 'sqlite:x'", "nft: unknown section; did you mean ntf?"),
        ("[listen.smp]\nport = 1", "listen.smp: unknown section; known are ntf"),
        ("[domains.orders]", "domains: unknown section"),
        ("[ntf]\nstore = 'memory:'", 'ntf.store: the value is not "sqlite:FILE" or'),
        ("[ntf]\nservices = 'yes'", 'ntf.services: "yes" is not true or false'),
        ("[ntf.webpush]\ncontact = 'ops@example.org'", "is not a mailto: or https:// address"),
        ("[ntf.webpush]\nallow_private = true", "ntf.webpush.allow_private: true is not a list"),
        ("[ntf.apns]\ntest_url = 'http://x'", "is not an https:// URL"),
        ("[listen.ntf]\nport = 70000", "listen.ntf.port: 70000 is not a whole number from 0"),
        ("[admin]\nhost = '0.0.0.0'", "admin.host: 0.0.0.0 is beyond loopback"),
        ("[ntf", "line 1, column"),
    ],
)
def test_what_is_wrong_is_named_with_advice(tmp_path: Path, text: str, error: str) -> None:
    assert error in wrong(tmp_path, text)


@pytest.mark.parametrize("name", ["key", "key_id", "team", "topic"])
def test_apple_wants_all_or_nothing(tmp_path: Path, name: str) -> None:
    text = "".join(line for line in APNS.splitlines(True) if not line.startswith(f"{name} ="))
    assert wrong(tmp_path, text) == f"ntf.apns.{name}: is missing; Apple asks for it"


def test_the_environment_is_stronger(tmp_path: Path) -> None:
    config = load(tmp_path, "[listen.ntf]\nport = 1", HEADGATE_LISTEN__NTF__PORT="2")
    assert config.listen.ntf.port == 2
    assert "HEADGATE_NTF__STORE: the value" in wrong(tmp_path, HEADGATE_NTF__STORE="x")
    error = wrong(tmp_path, HEADGATE_NTF__STORES="x")
    assert "did you mean HEADGATE_NTF__STORE?" in error
    assert load(tmp_path, HEADGATE_NTF_CONFIG="x", HEADGATE_CONFIG="y").ntf == config.ntf


def test_a_password_of_the_store_is_never_shown(tmp_path: Path) -> None:
    config = load(tmp_path, '[ntf]\nstore = "postgresql://me:sesame@db/x"')
    assert "sesame" not in str(config.entries)
    assert "sesame" not in wrong(tmp_path, '[ntf]\nstore = "mysql://me:sesame@db/x"')


def test_a_server_that_can_wake_nobody_says_so(tmp_path: Path) -> None:
    [warning] = load(tmp_path, "[ntf.webpush]\nenabled = false").warnings
    assert warning.startswith("ntf.webpush.enabled: no device can be woken")
    assert load(tmp_path, "[ntf.webpush]\nenabled = false\n" + APNS).warnings == ()


def test_providers_are_opened_as_the_file_says(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        '[ntf.webpush]\nkey = "k.pem"\nallow_private = ["up.example.org"]\nca = "ca.crt"\n'
        + APNS
        + "sandbox = true\n",
    )
    settings = push_settings(config)
    assert settings.web_push is not None
    assert settings.web_push.key_file == tmp_path / "k.pem"
    assert settings.web_push.allowed_private_hosts == {"up.example.org"}
    assert settings.web_push.ca_file == tmp_path / "ca.crt"
    assert settings.apns is not None
    assert settings.apns.key_file == tmp_path / "AuthKey.p8"
    assert (settings.apns.topic, settings.apns.sandbox) == ("org.example.app", True)
    assert push_settings(load(tmp_path, "[ntf.webpush]\nenabled = false")).web_push is None


def test_the_name_of_init_is_the_contact_and_in_the_address(tmp_path: Path) -> None:
    config = load(tmp_path)
    identity = Identity.open(config.identity, "x", 1e9)
    keep_host(config.identity, "push.example.org")
    assert host_name(config) == "push.example.org"
    assert address_of(config, identity, 7).text.endswith("@push.example.org:7")
    settings = push_settings(config).web_push
    assert settings is not None
    assert settings.contact == "https://push.example.org"
    keep_host(config.identity, "::1")
    assert address_of(config, identity).text.endswith(f"@[::1]:{config.listen.ntf.port}")


def test_a_journal_can_be_left_out(tmp_path: Path) -> None:
    kept = journal_settings(load(tmp_path))
    assert kept is not None
    assert (kept.directory, kept.schema) == (tmp_path / "ntf" / "journal", "headgate_ntf")
    assert journal_settings(load(tmp_path, "[journal]\nenabled = false")) is None
