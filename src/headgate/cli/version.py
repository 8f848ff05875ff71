"""``headgate version``."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from importlib.util import find_spec

import click

from headgate.cli.output import json_option, print_fields

EXTRAS = {"postgres": "psycopg", "pq": "pqcrypto", "push": "httpx", "spark": "pyspark"}
"""Extras, and a module that each brings."""


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Print the version, and what it runs on."""
    print_fields(installed(), as_json)


def installed() -> dict[str, object]:
    """The versions on this machine."""
    return {
        "headgate": _installed("headgate"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "extras": [name for name, module in EXTRAS.items() if find_spec(module) is not None],
    }


def _installed(name: str) -> str | None:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return None
