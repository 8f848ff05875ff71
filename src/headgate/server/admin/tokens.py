"""The token of the admin port: configured, or made at the first start and kept in the state
directory, where only who owns the router can read it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from headgate.client.admin import read_token
from headgate.errors import ConfigError
from headgate.server.config.hosts import is_loopback
from headgate.server.config.sections import ServerConfig

FILE = "admin.token"
"""In the state directory."""


class Token(NamedTuple):
    """The token of the admin port, and the file that has it."""

    text: str
    file: Path | None
    """Where it can be read, if in a file."""


@contextmanager
def kept(config: ServerConfig, *, lasts: bool) -> Iterator[Token]:
    """The token of a router, made if there is none. One that need not last is removed after."""
    if config.admin.token is not None:
        yield Token(config.admin.token.reveal(), _configured_file(config))
        return
    path = config.directory / FILE
    try:
        made_folder = not path.parent.exists()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = _make(path)
        text = read_token(path)
    except OSError as error:
        raise ConfigError(
            f"the token of the admin port cannot be kept in {path}: {error.strerror}; change the"
            " rights of the folder, or set admin.token"
        ) from None
    try:
        yield Token(text, path)
    finally:
        if is_new and not lasts:
            with suppress(OSError):
                path.unlink()
                if made_folder:
                    path.parent.rmdir()


def found(config: ServerConfig, url: str, file: Path | None = None) -> str | None:
    """The token that a client of the admin port at a URL says: that of a file if one is named,
    or of the configuration, or of its state directory. The last is not for strangers: it is given
    to this machine and to the host of the configuration."""
    if file is not None:
        try:
            return read_token(file)
        except OSError as error:
            raise ConfigError(f"the token cannot be read from {file}: {error.strerror}") from None
    if config.admin.token is not None:
        return config.admin.token.reveal()
    with suppress(OSError, ValueError, ConfigError):
        host = urlsplit(url).hostname or ""
        if is_loopback(host) or host == config.admin.host.lower():
            return read_token(config.directory / FILE)
    return None


def _configured_file(config: ServerConfig) -> Path | None:
    assert config.admin.token is not None, "asked about a configured token"
    kind, _, name = config.admin.token.shown.partition(":")
    if kind != "file":
        return None
    folder = Path.cwd() if config.source is None else config.source.parent
    return (folder / name).absolute()


def _make(path: Path) -> bool:
    """Write a new token, whole or not at all, unless there is one. Whether there was none: of two
    routers that start at once, one makes it and both know it."""
    with suppress(FileNotFoundError):
        if path.stat().st_size:
            return False
        path.unlink()  # a machine that died left it empty
    part = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(descriptor, "w") as file:
            os.fchmod(descriptor, 0o600)
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(descriptor)
        os.link(part, path)
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True
