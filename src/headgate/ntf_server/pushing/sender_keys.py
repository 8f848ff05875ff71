"""The keys by which push services know who sends: P-256, in files for their owner alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from headgate.errors import ConfigError
from headgate.store.private import make_file, make_folder

KEY_NAME: Final = "web_push.key"


def kept_key(folder: Path) -> EllipticCurvePrivateKey:
    """The key of this folder, made if there is none. Endpoints belong to the key that they were
    made for, so it is never replaced."""
    path = folder / KEY_NAME
    if not path.exists():
        _make(path)
    return read_key(path)


def read_key(path: Path) -> EllipticCurvePrivateKey:
    """Raises `ConfigError` for what is no key of P-256."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(f"{path} is not a private key in PEM without password") from None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise ConfigError(f"{path} is not a key of P-256, the one curve that push services take")
    return key


def _make(path: Path) -> None:
    """A key under this name when all of it is on the disk. Of two who make one, the first wins."""
    key = generate_private_key(SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    part = path.with_suffix(f".{os.getpid()}")
    try:
        make_folder(path.parent)
        with open(make_file(part), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)
        except FileExistsError:
            pass
        finally:
            part.unlink()
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}") from error
