"""Users of Redis clients as the configuration has them: in a file, in a section, or only one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from headgate.core.model.limits import Limits, MiB
from headgate.core.redis.acl import AccessControl
from headgate.errors import ConfigError, HeadgateError
from headgate.server.config import is_loopback
from headgate.server.config.sections import ListenResp
from headgate.wire.resp.commands.acl import known_rules
from headgate.wire.resp.commands.all_commands import COMMANDS

FILE_BYTES = 16 * MiB
"""A larger file is no list of users."""


class AclFile:
    """A list of users, a line for each, as Redis keeps it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._path = path

    def read(self) -> bytes:
        with self._path.open("rb") as file:
            data = file.read(FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            raise OSError(0, f"it is larger than {FILE_BYTES} bytes")
        return data

    def write(self, users: bytes) -> None:
        """The new file takes the place of the old one when it is on the disk. Nobody else may read
        it."""
        folder = self._path.parent
        handle, part = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(users)
                file.flush()
                os.fsync(file.fileno())
            Path(part).replace(self._path)
        except OSError:
            with suppress(OSError):
                Path(part).unlink()
            raise
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def acl_file(config: ListenResp, directory: Path) -> AclFile | None:
    return None if config.acl_file is None else AclFile(directory / config.acl_file)


def access_of(config: ListenResp, directory: Path, limits: Limits) -> AccessControl:
    """All users of a configuration, or a `ConfigError`."""
    known = known_rules(COMMANDS)
    file = acl_file(config, directory)
    password = None if config.password is None else config.password.reveal()
    access = AccessControl(password, limits)
    for name, rules in config.users.items():
        text = rules.reveal().encode(errors="surrogateescape")
        try:
            access.set_user(name.encode(), text.split(), known)
        except HeadgateError:
            # Not with its words: one that is in a wrong place may be a password.
            raise ConfigError(
                f"listen.resp.users.{name}: is no list of rules; write it as"
                ' "on >PASSWORD ~KEYS &CHANNELS +COMMAND"'
            ) from None
    if file is not None:
        try:
            access.load(file.read(), file.path, known)
        except OSError as error:
            raise ConfigError(
                f"listen.resp.acl_file: {file.path}: {error.strerror};"
                " an empty file is a list without users"
            ) from None
        except HeadgateError as error:
            raise ConfigError(f"listen.resp.acl_file: {error}") from None
    has_certificates = config.tls is not None and config.tls.client_ca is not None
    if access.entrant() is not None and not is_loopback(config.host) and not has_certificates:
        raise ConfigError(
            f"listen.resp.host: {config.host} is beyond loopback, where the user default needs a"
            " password, or has to be off"
        )
    return access
