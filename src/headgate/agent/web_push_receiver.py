"""A program as a receiver of Web Push: its keys, in a file of its own."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)

from headgate.crypto.p256 import SCALAR_BYTES, point_of, private_key
from headgate.errors import Malformed, StoreError
from headgate.notify.web_push import decrypt
from headgate.store.private import make_file
from headgate.wire.ntf.devices import AUTH_BYTES, WebPushDevice

FILE_BYTES: Final = SCALAR_BYTES + AUTH_BYTES


class WebPushReceiver:
    """A receiver of Web Push, as browsers provide it for pages, for a program that accepts a POST
    over https."""

    def __init__(self, private: EllipticCurvePrivateKey, auth: bytes) -> None:
        self._private = private
        self._auth = auth

    @classmethod
    def make(cls) -> Self:
        return cls(generate_private_key(SECP256R1()), secrets.token_bytes(AUTH_BYTES))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The receiver of a file, which is made for its owner alone if it does not exist. Raises
        `StoreError`."""
        file = Path(path)
        try:
            if not file.exists():
                cls.make()._write(file)
            secret = file.read_bytes()
            if len(secret) != FILE_BYTES:
                raise Malformed("another length")
            return cls(private_key(secret[:SCALAR_BYTES]), secret[SCALAR_BYTES:])
        except OSError as error:
            raise StoreError(f"{file} cannot be used: {error.strerror}") from error
        except Malformed:
            raise StoreError(
                f"{file} is no file of a receiver; move it away, and another is made"
            ) from None

    def device(self, endpoint: str) -> WebPushDevice:
        """The device for a notification server, given the URL at which this program accepts pushes.
        Raises `Malformed` for anything but an https URL."""
        return WebPushDevice.of(endpoint, self._auth, point_of(self._private))

    def decrypt(self, body: bytes) -> bytes:
        """The push in the body of a POST. Raises `Malformed` if it is not for this receiver."""
        return decrypt(body, self._private, self._auth)

    def _write(self, file: Path) -> None:
        number = self._private.private_numbers().private_value
        part = file.with_name(f"{file.name}.{os.getpid()}")
        with open(make_file(part), "wb") as opened:
            opened.write(number.to_bytes(SCALAR_BYTES, "big") + self._auth)
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
