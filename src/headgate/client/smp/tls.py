"""TLS for clients of routers, with the certificate of a service if there is one."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headgate.client.smp.service import Service

PROTOCOL = "smp/1"


def tls_context(service: Service | None = None, *, alpn: bool = True) -> ssl.SSLContext:
    """TLS 1.3 without authorities: the fingerprint identifies the router."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols([PROTOCOL])
    if service is not None:
        with as_file(pem(service)) as path:
            context.load_cert_chain(path)
    return context


def pem(service: Service) -> bytes:
    """The private key and the certificates, in OpenSSL's form. This is a secret."""
    private = service.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + b"".join(ssl.DER_cert_to_PEM_cert(der).encode() for der in service.chain)


@contextmanager
def as_file(secret: bytes) -> Iterator[str]:
    """The path of a file with these bytes, for as long as it is needed.

    OpenSSL reads certificates from files only. On Linux this one is in memory; elsewhere only its
    owner may read it.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            _write(descriptor, secret)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        try:
            _write(descriptor, secret)
        finally:
            os.close(descriptor)
        yield path
    finally:
        os.unlink(path)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
