"""Options with which a command reaches this router, so that one can be pasted anywhere on its
machine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from headgate.server.config.sections import Config
from headgate.server.desk.answers import CommandOptions


def command_options(config: Config, listening: Mapping[str, str]) -> CommandOptions:
    """The file of the configuration, which also has the tokens; and the address, where that is
    not in the file: if there is none, or the system chose the port."""
    source = [] if config.source is None else ["--config", str(Path(config.source).resolve())]
    ports = {name: each.port for name, each in config.listen.each().items()}

    def options(name: str, port: int | None) -> str | None:
        url = listening.get(name)
        if url is None:
            return None
        return shlex.join(source if source and port else [*source, "--url", url])

    return CommandOptions(
        admin=options("admin", config.admin.port) or shlex.join(source),
        channels=options("resp", ports.get("resp")),
        queues=options("bmq", ports.get("bmq")),
        files=shlex.join(source),
    )
