from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from headgate.server.certificates import SOON_SECONDS, ending_soon
from headgate.server.config import Config, load_config

DAY = 86_400.0


def certificate(path: Path, days: float) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=100))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, SHA256())
    )
    path.write_bytes(built.public_bytes(Encoding.PEM))


@pytest.fixture
def config(tmp_path: Path) -> Config:
    file = tmp_path / "headgate.toml"
    file.write_text('[listen.resp]\nport = 0\n[listen.resp.tls]\ncertificate = "server.crt"\n')
    return load_config(file, {})


@pytest.mark.parametrize(("days", "is_told"), [(40, False), (20, True), (-1, True)])
def test_a_certificate_that_ends_within_three_weeks_is_told_of(
    config: Config, tmp_path: Path, days: float, is_told: bool
) -> None:
    certificate(tmp_path / "server.crt", days)
    found = ending_soon(config, time.time())
    assert [each.what for each in found] == (["listen.resp"] if is_told else [])
    for each in found:
        assert each.path.endswith("server.crt")
        assert (days - 1) * DAY < each.left <= min(days * DAY, SOON_SECONDS)


def test_one_that_cannot_be_read_is_no_matter_of_time(config: Config, tmp_path: Path) -> None:
    assert ending_soon(config, time.time()) == []
    (tmp_path / "server.crt").write_text("nonsense")
    assert ending_soon(config, time.time()) == []
