"""Identity of the router: a certificate of its own that clients know by its fingerprint.

The identity is a CA that signs one thing, the leaf that TLS shows. They are made at the first
start, in a folder of files:

    ca.crt      the identity; its hash is in the router's address
    ca.key      signs leaves and is not read when the router starts: it may be kept elsewhere
    server.crt  the leaf
    server.key  the leaf's key, which also signs the keys of sessions

and a fifth, ``host``, with the name that ``headgate init --host`` was given.

The folder gets its name when all four are on the disk, so there is never half an identity of ours.
Files made by another router of the protocol, under the same names, are taken as they are.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headgate.crypto import keys
from headgate.errors import ConfigError, Malformed
from headgate.store.private import make_file

CA_CERTIFICATE = "ca.crt"
CA_KEY = "ca.key"
CERTIFICATE = "server.crt"
KEY = "server.key"
HOST = "host"
"""The name by which clients reach the router, if ``headgate init`` was told one."""
NEEDED = (CA_CERTIFICATE, CERTIFICATE, KEY)

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
"""Clients know the identity for good, so it does not expire."""

EARLIER = timedelta(hours=25)
"""How far the clock of a client may be behind."""

NAME_MAX = 64
"""X.509 has no longer common names."""

ADVICE = (
    "put the file back from a backup, or move the folder away: a new identity is then made,"
    " with another address, which every client has to be told"
)


class Identity:
    """The certificates of a router and the key of its leaf.

    Read from the state directory when the listener opens, and again by a reload. The fingerprint
    stays the same for the life of a router: clients know it by that.
    """

    def __init__(self, chain: tuple[bytes, bytes], private: keys.SigningKey) -> None:
        self.chain = chain
        """The DER of leaf and identity, as TLS and the handshake show them."""
        self.private = private
        """Of the leaf."""
        self.fingerprint = keys.fingerprint(chain)

    @classmethod
    def open(cls, folder: Path, host: str, now: float) -> Identity:
        """The identity in this folder, made for this host if there is none."""
        if not any((folder / name).exists() for name in (*NEEDED, CA_KEY)):
            make(folder, host, now)
        return cls.load(folder, now)

    @classmethod
    def load(cls, folder: Path, now: float) -> Identity:
        for name in NEEDED:
            if not (folder / name).exists():
                raise ConfigError(f"{folder / name} is missing; {ADVICE}")
        chain = (_certificate(folder / CERTIFICATE), _certificate(folder / CA_CERTIFICATE))
        private = _private_key(folder / KEY)
        try:
            keys.check_chain(chain, now)
            leaf = keys.leaf_key(chain)
        except Malformed as error:
            raise ConfigError(
                f"{folder / CERTIFICATE} and {CA_CERTIFICATE} cannot be used: {error};"
                " look at the clock of this machine, or else " + ADVICE
            ) from error
        if keys.public_key(private) != leaf:
            raise ConfigError(f"{folder / KEY} is not the key of {CERTIFICATE}; {ADVICE}")
        return cls(chain, private)

    @property
    def fingerprint_text(self) -> str:
        return urlsafe_b64encode(self.fingerprint).decode().rstrip("=")

    def address(self, host: str, port: int) -> str:
        """The address by which a client finds the router and knows that it is the right one."""
        shown = f"[{host}]" if ":" in host else host
        return f"smp://{urlsafe_b64encode(self.fingerprint).decode()}@{shown}:{port}"


def keep_host(folder: Path, host: str) -> None:
    """Keep the name by which clients reach the router, for whoever prints its address."""
    try:
        with open(make_file(folder / HOST), "w", encoding="utf-8") as file:
            file.write(host + "\n")
    except OSError as error:
        raise ConfigError(f"{folder / HOST} cannot be written: {error.strerror}") from error


def kept_host(folder: Path) -> str | None:
    try:
        return (folder / HOST).read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def make(folder: Path, host: str, now: float) -> None:
    """Put a new identity for this host into a folder that is empty, or not there yet."""
    assert host, "the leaf has a name"
    files = _new_files(host, now)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            for name, data in files.items():
                _write(part / name, data)
            _sync(part)
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part)
            raise
        _sync(folder.parent)
    except OSError as error:
        raise ConfigError(
            f"the identity cannot be made in {folder}: {error.strerror};"
            " it needs a folder of its own, in a place where it may write"
        ) from error


def renew_leaf(folder: Path, host: str, now: float, ca_key: Path | None = None) -> None:
    """Put a new leaf with a new key into the folder, signed by the identity that is there. Clients
    know the identity, so its address stays as it is."""
    ca_key = ca_key or folder / CA_KEY
    signer = _private_key(ca_key)
    identity = x509.load_der_x509_certificate(_certificate(folder / CA_CERTIFICATE))
    spki = identity.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if keys.public_key(signer) != spki:
        raise ConfigError(f"{ca_key} is not the key of {folder / CA_CERTIFICATE}")
    leaf_key = Ed25519PrivateKey.generate()
    leaf = _leaf(host, now, identity.subject, leaf_key, signer)
    written = {KEY: _pem(leaf_key), CERTIFICATE: leaf.public_bytes(Encoding.PEM)}
    try:
        for name, data in written.items():
            _write(folder / f".{name}.new", data)
        for name in written:
            (folder / f".{name}.new").replace(folder / name)
        _sync(folder)
    except OSError as error:
        raise ConfigError(f"the leaf cannot be written to {folder}: {error.strerror}") from error


def _new_files(host: str, now: float) -> dict[str, bytes]:
    ca_key, leaf_key = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    ca_name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "SMP server CA"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "SimpleX"),
        ]
    )
    ca = (
        _builder(now, ca_name)
        .subject_name(ca_name)
        .serial_number(x509.random_serial_number())
        .public_key(ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, None)
    )
    leaf = _leaf(host, now, ca_name, leaf_key, ca_key)
    return {
        CA_CERTIFICATE: ca.public_bytes(Encoding.PEM),
        CA_KEY: _pem(ca_key),
        CERTIFICATE: leaf.public_bytes(Encoding.PEM),
        KEY: _pem(leaf_key),
    }


def _builder(now: float, issuer: x509.Name) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .not_valid_before(datetime.fromtimestamp(now, UTC) - EARLIER)
        .not_valid_after(FOREVER)
    )


def _leaf(
    host: str, now: float, issuer: x509.Name, key: Ed25519PrivateKey, signer: keys.SigningKey
) -> x509.Certificate:
    # Clients do not compare the host with this name, so a long one may be cut.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:NAME_MAX])])
    return (
        _builder(now, issuer)
        .subject_name(name)
        .serial_number(x509.random_serial_number())
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=False)
        .add_extension(_usage(), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signer, None)
    )


def _usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=True,
        key_agreement=True,
        key_encipherment=False,
        data_encipherment=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(private: Ed25519PrivateKey) -> bytes:
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate(path: Path) -> bytes:
    try:
        return x509.load_pem_x509_certificate(_read(path)).public_bytes(Encoding.DER)
    except (ValueError, x509.InvalidVersion):
        raise ConfigError(f"{path} is not a certificate in PEM; {ADVICE}") from None


def _private_key(path: Path) -> keys.SigningKey:
    try:
        private = load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(
            f"{path} is not a private key in PEM without password; {ADVICE}"
        ) from None
    if not isinstance(private, Ed25519PrivateKey | Ed448PrivateKey):
        raise ConfigError(f"{path} is neither an Ed25519 nor an Ed448 key; {ADVICE}")
    return private


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """So that the names in it survive a crash as well."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
