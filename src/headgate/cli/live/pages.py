"""Lists of the API, which come in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from headgate.cli.admin import Admin
from headgate.cli.table import Listing

PAGE = 100
"""Rows of one page."""

ROWS_MAX = 10_000
"""The API does not look further; searching finds the rest."""


def paged(admin: Admin, path: str, listing: Listing, **query: object) -> Iterator[dict[str, Any]]:
    """The rows of a list, in the order of the router, as many as are wanted. Pages are of different
    moments: what moved from one to the next comes once."""
    offset = 0
    key = listing.columns[0].name if listing.columns else None
    seen = set()
    most = ROWS_MAX if listing.sort is not None or listing.limit is None else listing.limit
    while True:
        wanted = min(PAGE, most - offset)
        found = admin.get(path, limit=wanted, offset=offset, **query)
        rows: list[dict[str, Any]] = found["rows"]
        for row in rows:
            if key is None or row.get(key) not in seen:
                seen.add(row.get(key) if key is not None else None)
                yield row
        offset += len(rows)
        if not rows or offset >= found["total"]:
            return
        if offset >= most:
            if listing.limit is None:
                click.echo(f"{offset} of {found['total']}: search for the others", err=True)
            return
