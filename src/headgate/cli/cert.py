"""``headgate cert``: the certificates of a router, and new leaves for its identity."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.config_file import config_option, load
from headgate.cli.lazy import LazyGroup
from headgate.cli.output import emit, json_option
from headgate.cli.table import Column, Listing, list_options
from headgate.cli.units import moment

if TYPE_CHECKING:
    from headgate.server.config import Config

HERE = "headgate.cli.cert"
DAYS = 21
"""A certificate that ends sooner needs attention."""


@click.group(
    cls=LazyGroup,
    lazy={
        "ls": (HERE, "Print the certificates, and until when each can be used."),
        "renew": (HERE, "Make a new leaf for the identity; its address stays."),
    },
)
def cert() -> None:
    """Look at certificates, and make new leaves."""


@click.command()
@click.option(
    "--days", type=click.IntRange(0), default=DAYS, show_default=True, help="What counts as soon."
)
@list_options(
    Column("what"),
    Column("state"),
    Column("until", show=moment),
    Column("subject"),
    Column("file"),
    Column("sha256", is_wide=True),
)
@config_option
@click.pass_context
def ls(ctx: click.Context, days: int, listing: Listing, config: Path | None) -> None:
    """Print the certificates, and until when each can be used.

    They are those that listeners show, and the router's identity. Exits with 3 if one cannot be
    read, is over, or ends soon.
    """
    bad = 0

    def rows() -> list[dict[str, Any]]:
        nonlocal bad
        found = list(_rows(load(config), days))
        bad = sum(row["state"] != "ok" for row in found)
        return found

    listing.show(rows)
    ctx.exit(3 if bad else 0)


def _rows(settings: Config, days: int) -> Iterator[dict[str, Any]]:
    for name, listen in settings.listen.each().items():
        if listen.tls is not None:
            yield _row(f"listen.{name}", settings.directory / listen.tls.certificate, days)
    if settings.listen.smp is not None:
        folder = settings.directory / settings.smp.identity
        for name in ("ca.crt", "server.crt"):
            if (folder / name).exists():
                yield _row(f"identity {name}", folder / name, days)


def _row(what: str, path: Path, days: int) -> dict[str, Any]:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    row: dict[str, Any] = {"what": what, "file": str(path)}
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        return row | {"state": f"cannot be read: {getattr(error, 'strerror', None) or error}"}
    until = found.not_valid_after_utc.timestamp()
    left = until - time.time()
    soon = f"ends in {left / 86_400:.0f} days" if left < days * 86_400 else "ok"
    return row | {
        "state": "is over" if left < 0 else soon,
        "until": until,
        "subject": found.subject.rfc4514_string(),
        "sha256": found.fingerprint(SHA256()).hex(),
    }


@click.command()
@config_option
@click.option(
    "--ca-key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The identity's key, if it is kept elsewhere.  [default: ca.key beside the identity]",
)
@json_option
def renew(config: Path | None, ca_key: Path | None, as_json: bool) -> None:
    """Make a new leaf for the identity; its address stays.

    The leaf is what TLS shows, and it is signed by the identity, which clients know. A router that
    runs takes it over with SIGHUP ("headgate reload").
    """
    from headgate.server.identity import Identity, kept_host, renew_leaf

    settings = load(config)
    folder = settings.directory / settings.smp.identity
    renew_leaf(folder, kept_host(folder) or socket.gethostname(), time.time(), ca_key)
    fingerprint = Identity.load(folder, time.time()).fingerprint_text
    row = {"folder": str(folder), "fingerprint": fingerprint}
    emit([row], lambda row: f"{row['folder']}: a new leaf; {row['fingerprint']} stays", as_json)
