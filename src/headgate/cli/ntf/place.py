"""The configuration that a command of the notification server is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headgate.ntf_server.config import FILE_NAME

F = TypeVar("F", bound=Callable[..., Any])

VARIABLE: Final = "HEADGATE_NTF_CONFIG"


def _default_file() -> Path | None:
    path = Path(FILE_NAME)
    return path if path.exists() else None


def ntf_config_option(command: F) -> F:
    """Add ``--config`` to a command."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar=VARIABLE,
        default=_default_file,
        show_default=f"{FILE_NAME} in the current directory, if there is one",
        metavar="FILE",
        help="The configuration of the notification server.",
    )(command)
