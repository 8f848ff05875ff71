"""Tokens to try the tables of the notification server with."""

from __future__ import annotations

from dataclasses import replace

from headgate.notify.tokens import FreshToken, Token, register
from headgate.wire.ntf.statuses import InvalidReason, TokenStatus
from tests.support.ntf_examples import CODE, TNEW, TOKEN

DAY = 19_675
FRESH = FreshToken(TOKEN, bytes([0x44]) * 32, CODE)
OTHER = FreshToken(bytes(24), bytes([0x45]) * 32, bytes(32))
"""What is drawn for a request that turns out to be repeated."""


def token_in(status: TokenStatus) -> Token:
    token = register(None, TNEW, FRESH, DAY)
    reason = InvalidReason.BAD if status is TokenStatus.INVALID else None
    return replace(token, status=status, reason=reason)
