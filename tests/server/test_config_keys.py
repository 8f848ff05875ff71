"""Every key of the configuration is read by something."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import headgate
from headgate.server.config.known_keys import DOMAIN, KNOWN
from headgate.server.config.tree import Group, Key

SOURCE = Path(headgate.__file__).parent


def keys(members: Mapping[str, Key | Group], path: str = "") -> Iterator[str]:
    for name, member in members.items():
        if isinstance(member, Key):
            yield f"{path}{name}"
        else:
            yield from keys(member.members, f"{path}{name}.")


@cache
def read_attributes() -> frozenset[str]:
    """The names of all attributes that the source reads."""
    return frozenset(
        node.attr
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


@pytest.mark.parametrize("key", [*keys(KNOWN), *keys(DOMAIN.members, "domains.NAME.")])
def test_a_key_that_nothing_reads_is_not_there(key: str) -> None:
    assert key.rpartition(".")[2] in read_attributes()
