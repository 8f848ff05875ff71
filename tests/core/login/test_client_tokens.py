"""Clients that are known by a token each."""

from __future__ import annotations

import pytest

from headgate.core.login.client_tokens import ClientTokens

CLIENTS = ClientTokens({"orders": "one two three", "billing": "four"})


@pytest.mark.parametrize(
    ("name", "token", "is_right"),
    [
        ("orders", "one two three", True),
        ("billing", "four", True),
        ("orders", "four", False),
        ("orders", "", False),
        ("nobody", "", False),
        ("nobody", "four", False),
        ("", "", False),
        ("orders", "\udcff", False),
    ],
)
def test_a_client_is_known_by_its_own_token_alone(name: str, token: str, is_right: bool) -> None:
    assert CLIENTS.accept(name, token) is is_right


def test_tokens_are_not_shown() -> None:
    assert "four" not in repr(vars(CLIENTS))
    assert "orders" in CLIENTS
    assert len(CLIENTS) == 2
