"""Contexts: routers that somebody gave a name to, each in a file of its own.

They are in ``~/.config/headgate`` (or ``$XDG_CONFIG_HOME/headgate``): ``contexts/NAME.toml``, which
only their owner can read, and ``context``, the name of the one in use. A token is ``file:PATH`` as
a rule; what ``headgate login`` is told is in ``contexts/NAME.token``, beside the context.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from headgate.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FILE_BYTES = 64 * 1024
"""A larger file is not a context."""


@dataclass(frozen=True, slots=True)
class Context:
    """A context: where a router is, and who asks. A missing part is None."""

    url: str | None = None
    """Of the admin port."""
    token: str | None = field(default=None, repr=False)
    """Of the admin port: the token, or ``file:PATH``."""
    ca: str | None = None
    """A certificate to trust, for all ports with TLS."""
    resp: str | None = None
    """Where channels are: ``HOST:PORT``, or a URL."""
    bmq: str | None = None
    """Where shared queues are."""
    smp: str | None = None
    """The address of the router for SimpleX clients."""

    @property
    def shown_token(self) -> str | None:
        """The token as others may see it."""
        if self.token is None or self.token.startswith("file:"):
            return self.token
        return "(hidden)"


KEYS = tuple(each.name for each in fields(Context))


class Contexts:
    """All contexts of whoever runs the command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Contexts:
        """The contexts in the home that this environment names."""
        base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config")
        return cls(Path(base) / "headgate")

    def file(self, name: str) -> Path:
        """Where the context of this name is, or would be."""
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{name!a} is no name of a context; it has letters, digits, dots, - and _"
            )
        return self._folder / "contexts" / f"{name}.toml"

    def token_file(self, name: str) -> Path:
        """Where the token of a context is kept if nobody keeps it elsewhere."""
        return self.file(name).with_suffix(".token")

    def names(self) -> list[str]:
        return sorted(path.stem for path in (self._folder / "contexts").glob("*.toml"))

    @property
    def current(self) -> str | None:
        """The name of the context in use, if one is."""
        try:
            return (self._folder / "context").read_text().strip() or None
        except OSError:
            return None

    def use(self, name: str | None) -> None:
        """Make a context the one in use, or none."""
        path = self._folder / "context"
        if name is None:
            path.unlink(missing_ok=True)
            return
        self.get(name)
        _write(path, f"{name}\n")

    def get(self, name: str) -> Context:
        path = self.file(name)
        try:
            data = path.read_bytes()[:FILE_BYTES]
        except FileNotFoundError:
            known = ", ".join(self.names()) or "none"
            raise ConfigError(
                f"there is no context {name}; known are: {known}. Make it with:"
                f" headgate context add {name} --url http://HOST:8222"
            ) from None
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        try:
            read = tomllib.loads(data.decode())
        except ValueError as error:
            raise ConfigError(f"{path} is not TOML: {error}") from None
        unknown = sorted(set(read) - set(KEYS))
        if unknown:
            raise ConfigError(f"{path}: unknown key {unknown[0]}; known are {', '.join(KEYS)}")
        for key, text in read.items():
            if not isinstance(text, str):
                raise ConfigError(f"{path}: {key} is not a text")
        return Context(**read)

    def put(self, name: str, context: Context) -> Path:
        """Write a context; return where."""
        path = self.file(name)
        lines = [f"{k} = {json.dumps(v)}\n" for k, v in asdict(context).items() if v is not None]
        _write(path, "".join(lines))
        return path

    def put_token(self, name: str, token: str) -> Path:
        """Write a token for a context; return where."""
        path = self.token_file(name)
        _write(path, f"{token}\n")
        return path

    def remove(self, name: str) -> None:
        self.get(name)
        self.file(name).unlink()
        self.token_file(name).unlink(missing_ok=True)
        if self.current == name:
            self.use(None)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and for nobody else to read."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.write(text)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
