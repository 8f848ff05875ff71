"""The configuration that a command is about. Nothing is read before a command asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from headgate.server.config import Config

F = TypeVar("F", bound=Callable[..., Any])

FILE_NAME = "headgate.toml"
"""Read from the current directory when no other file is named."""


def _default_file() -> Path | None:
    path = Path(FILE_NAME)
    return path if path.exists() else None


def config_option(command: F) -> F:
    """Add ``--config`` to a command."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="HEADGATE_CONFIG",
        default=_default_file,
        show_default=f"{FILE_NAME} in the current directory, if there is one",
        metavar="FILE",
        help="The configuration.",
    )(command)


def load(path: Path | None) -> Config:
    """The configuration of a file, or without one, with the environment on top."""
    from headgate.server.config import load_config

    return load_config(path, os.environ)
