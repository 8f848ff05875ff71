"""Turns: which push of which token is to be made."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from headgate.core.model.value import value


class PushKind(Enum):
    """The kind of a push: what it is for. The value is its label in the metrics."""

    CODE = "code"
    NOTICES = "notices"
    CHECK = "check"


TurnKey: TypeAlias = tuple[PushKind, bytes]
"""The key of a waiting turn: a token waits for each kind once."""


@value
class Turn:
    """A push whose time has come."""

    kind: PushKind
    token: bytes
    is_second: bool = False
    """The provider took it not the first time."""

    @property
    def key(self) -> TurnKey:
        return self.kind, self.token
