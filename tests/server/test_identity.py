"""The router's certificates on disk."""

from __future__ import annotations

import os
import stat
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headgate.crypto.keys import check_chain, leaf_key, open_signed_key, public_key, sign_key
from headgate.errors import ConfigError
from headgate.server.identity import Identity, make

NOW = 1_750_000_000.0
FILES = ["ca.crt", "ca.key", "server.crt", "server.key"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "identity"


@pytest.fixture
def identity(folder: Path) -> Identity:
    return Identity.open(folder, "router.example", NOW)


def test_the_first_start_makes_an_identity_and_later_ones_find_it(folder: Path) -> None:
    first = Identity.open(folder, "router.example", NOW)
    second = Identity.open(folder, "elsewhere.example", NOW + 10**9)
    assert second.chain == first.chain
    assert second.fingerprint == first.fingerprint
    assert public_key(second.private) == public_key(first.private)


def test_two_routers_are_two_identities(tmp_path: Path) -> None:
    names = {Identity.open(tmp_path / name, "host", NOW).fingerprint for name in ("a", "b")}
    assert len(names) == 2


def test_the_certificates_are_as_clients_want_them(identity: Identity) -> None:
    check_chain(identity.chain, NOW)
    check_chain(identity.chain, NOW - 86_400)  # a client whose clock is a day behind
    check_chain(identity.chain, NOW + 100 * 365 * 86_400)
    leaf, ca = (x509.load_der_x509_certificate(der) for der in identity.chain)
    assert ca.version is leaf.version is x509.Version.v3
    assert ca.subject == ca.issuer == leaf.issuer
    names = [(part.oid, part.value) for part in ca.subject]
    assert names == [
        (NameOID.COMMON_NAME, "SMP server CA"),
        (NameOID.ORGANIZATION_NAME, "SimpleX"),
    ]
    ca.verify_directly_issued_by(ca)
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca) == (True, True)
    assert [part.value for part in leaf.subject] == ["router.example"]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.content_commitment, usage.key_agreement) == (True,) * 3
    assert not usage.key_cert_sign
    extended = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_the_leaf_signs_the_keys_of_sessions(identity: Identity) -> None:
    key = public_key(Ed25519PrivateKey.generate())
    signed = sign_key(identity.private, key)
    assert open_signed_key(signed, leaf_key(identity.chain)) == key


def test_the_fingerprint_is_the_hash_of_the_identity_certificate(identity: Identity) -> None:
    assert identity.fingerprint == sha256(identity.chain[1]).digest()
    text = identity.fingerprint_text
    assert len(text) == 43
    assert urlsafe_b64decode(text + "=") == identity.fingerprint


@pytest.mark.parametrize(
    ("host", "shown"), [("router.example", "router.example"), ("::1", "[::1]")]
)
def test_an_address_holds_the_padded_fingerprint(identity: Identity, host: str, shown: str) -> None:
    expected = f"smp://{identity.fingerprint_text}=@{shown}:5223"
    assert identity.address(host, 5223) == expected


def test_only_the_owner_may_read_the_files(folder: Path, identity: Identity) -> None:
    assert sorted(path.name for path in folder.iterdir()) == FILES
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_empty_folder_is_filled(folder: Path) -> None:
    folder.mkdir(parents=True)
    Identity.open(folder, "host", NOW)
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_a_host_name_longer_than_a_certificate_takes_is_cut(folder: Path) -> None:
    identity = Identity.open(folder, "a" * 200, NOW)
    leaf = x509.load_der_x509_certificate(identity.chain[0])
    assert [part.value for part in leaf.subject] == ["a" * 64]


@pytest.mark.parametrize("failing", range(1, 7))
def test_a_crash_while_it_is_made_leaves_no_half_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Four files and two folders are synced."""
    synced = 0

    def sync(descriptor: int) -> None:
        nonlocal synced
        synced += 1
        if synced == failing:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(ConfigError, match="No space left on device"):
        Identity.open(folder, "host", NOW)
    left = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    assert left == (FILES if failing == 6 else [])
    assert [path.name for path in folder.parent.iterdir()] == (["identity"] if failing == 6 else [])


def test_the_key_of_the_identity_may_be_kept_elsewhere(folder: Path, identity: Identity) -> None:
    (folder / "ca.key").unlink()
    assert Identity.open(folder, "host", NOW).fingerprint == identity.fingerprint


@pytest.mark.parametrize("name", ["ca.crt", "server.crt", "server.key"])
def test_a_missing_file_is_named_and_not_made_anew(
    folder: Path, identity: Identity, name: str
) -> None:
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=f"{name} is missing; put the file back from a backup"):
        Identity.open(folder, "host", NOW)
    assert not (folder / name).exists()


def test_a_lone_identity_key_does_not_start_a_new_identity(
    folder: Path, identity: Identity
) -> None:
    for name in ("ca.crt", "server.crt", "server.key"):
        (folder / name).unlink()
    with pytest.raises(ConfigError, match=r"ca\.crt is missing"):
        Identity.open(folder, "host", NOW)


@pytest.mark.parametrize("name", ["ca.crt", "server.crt", "server.key"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\x00", "cut"], ids=str)
def test_a_broken_file_is_named(
    folder: Path, identity: Identity, name: str, content: bytes | str
) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:-40] if isinstance(content, str) else content)
    with pytest.raises(ConfigError, match=f"{name} is not a .* put the file back from a backup"):
        Identity.open(folder, "host", NOW)


def test_a_file_that_cannot_be_read_is_named(folder: Path, identity: Identity) -> None:
    (folder / "server.key").unlink()
    (folder / "server.key").mkdir()
    with pytest.raises(ConfigError, match=r"server\.key cannot be read: Is a directory"):
        Identity.open(folder, "host", NOW)


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["server.key"], r"server\.key is not the key of server\.crt"),
        (["server.crt", "server.key"], r"server\.crt and ca\.crt cannot be used: .*not signed"),
        (["ca.crt"], r"server\.crt and ca\.crt cannot be used: .*not signed"),
    ],
)
def test_files_of_two_identities_do_not_go_together(
    folder: Path, identity: Identity, names: list[str], complaint: str
) -> None:
    other = folder.parent / "other"
    make(other, "host", NOW)
    for name in names:
        (folder / name).write_bytes((other / name).read_bytes())
    with pytest.raises(ConfigError, match=complaint):
        Identity.open(folder, "host", NOW)


def test_a_clock_before_the_certificates_were_made_is_told(
    folder: Path, identity: Identity
) -> None:
    with pytest.raises(ConfigError, match="not valid at this time; look at the clock"):
        Identity.open(folder, "host", 0.0)


def test_a_key_with_a_password_is_refused(folder: Path, identity: Identity) -> None:
    encryption = BestAvailableEncryption(b"secret")
    pem = identity.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    (folder / "server.key").write_bytes(pem)
    with pytest.raises(ConfigError, match=r"server\.key is not a private key .*without password"):
        Identity.open(folder, "host", NOW)


def test_a_key_of_another_algorithm_is_refused(folder: Path, identity: Identity) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.key").write_bytes(pem)
    with pytest.raises(ConfigError, match="neither an Ed25519 nor an Ed448 key"):
        Identity.open(folder, "host", NOW)


def test_a_folder_with_other_things_in_it_is_left_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="needs a folder of its own"):
        Identity.open(folder, "host", NOW)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert [path.name for path in folder.parent.iterdir()] == ["identity"]
