"""Certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    certificate, key = folder / "server.crt", folder / "server.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def make_client_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of a client and its key, signed by the authority ``clients.crt`` in the folder,
    which is made if it is not there."""
    authority, authority_key = folder / "clients.crt", folder / "clients.key"
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    if not authority.exists():
        subprocess.run(
            [
                *("openssl", "req", "-x509", *new_key, "-subj", "/CN=authority of clients"),
                *("-keyout", str(authority_key), "-out", str(authority)),
            ],
            check=True,
            capture_output=True,
        )
    subprocess.run(
        [
            *("openssl", "req", "-x509", *new_key, "-subj", f"/O=Example/CN={name}"),
            *("-CA", str(authority), "-CAkey", str(authority_key)),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
