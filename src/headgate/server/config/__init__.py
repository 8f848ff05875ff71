"""The configuration: one TOML file, the environment on top, typed sections out."""

from __future__ import annotations

from headgate.server.config.default import attribute_docs, default_text
from headgate.server.config.hosts import is_loopback
from headgate.server.config.kinds import Secret
from headgate.server.config.reader import FILE_NAME, load_config
from headgate.server.config.sections import Config, Listen

__all__ = [
    "FILE_NAME",
    "Config",
    "Listen",
    "Secret",
    "attribute_docs",
    "default_text",
    "is_loopback",
    "load_config",
]
