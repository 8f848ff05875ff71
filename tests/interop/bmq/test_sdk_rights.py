"""The official SDK, which is not changed for it, with a router that knows its clients."""

from __future__ import annotations

import pytest

from tests.interop.bmq.conftest import Connect
from tests.support.bmq_router import SUCCESS, Router, SdkError

DOMAINS = """
[listen.bmq.clients]
shop = "the token of shop"
billing = "the token of billing"
[domains.invoices]
mode = "priority"
readers = ["billing"]
writers = ["shop"]
creators = ["shop"]
"""
QUEUE = "bmq://invoices/new"


async def test_a_client_shows_its_token_and_does_what_it_may(
    router: Router, connect: Connect
) -> None:
    shop = await connect(name="token:shop:the token of shop")
    await shop.open(QUEUE, write=True)
    assert await shop.post(QUEUE, b"one book") == SUCCESS
    billing = await connect(name="token:billing:the token of billing")
    with pytest.raises(SdkError, match="REFUSED"):
        await billing.open(QUEUE, write=True)
    with pytest.raises(SdkError, match="REFUSED"):
        await billing.open("bmq://invoices/another", read=True)
    await billing.open(QUEUE, read=True)
    [message] = await billing.take(1)
    assert message.body == b"one book"
    assert [q["queue"] for q in router.status()["queues"]] == [QUEUE]
    assert "the token of" not in router.log


@pytest.mark.parametrize("name", [None, "token:shop:guessed", "token:nobody:the token of shop"])
async def test_a_client_that_does_not_show_it_is_not_let_in(
    connect: Connect, name: str | None
) -> None:
    with pytest.raises(SdkError):
        await connect(name=name)
