"""The rights of clients in a domain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.commands import Open, Reconfigure
from headgate.core.effects import Revoked
from headgate.core.facts import AccessDenied, QueueCreated
from headgate.core.model.ids import WHOLE, QueueId, SessionId
from headgate.errors import HeadgateError, NoRight
from tests.support.shared_queues import OTHER, PRIORITY, Q, Shop

GUARDED = replace(
    PRIORITY, readers=("billing", "both"), writers=("shop", "both"), creators=("both",)
)


def opening(
    shop: Shop,
    client: str,
    *,
    read: bool = False,
    write: bool = False,
    queue: QueueId = Q,
    session: SessionId | None = None,
) -> HeadgateError | None:
    me = session or shop.rig.session(client or "nobody")
    return shop.ask(
        Open(me, shop.ref(), queue, "orders", WHOLE, read=read, write=write, client=client)
    )


def test_without_lists_everybody_may_do_everything() -> None:
    shop = Shop()
    assert opening(shop, "", read=True, write=True) is None
    assert opening(shop, "anybody", read=True, write=True) is None


def test_a_client_may_do_what_the_lists_of_the_domain_say() -> None:
    shop = Shop(GUARDED)
    assert opening(shop, "both", read=True, write=True) is None
    assert opening(shop, "billing", read=True) is None
    assert opening(shop, "shop", write=True) is None


@pytest.mark.parametrize(
    ("client", "read", "write", "queue", "said"),
    [
        ("shop", True, False, Q, "client shop may not read queues of the domain orders"),
        ("shop", True, True, Q, "client shop may not read"),
        ("billing", False, True, Q, "client billing may not write to queues of the domain orders"),
        ("billing", True, False, OTHER, "client billing may not create queues"),
        ("", True, False, Q, "a client that has not proved its name may not read"),
    ],
)
def test_what_a_client_may_not_do_is_refused_and_leaves_nothing(
    client: str, read: bool, write: bool, queue: QueueId, said: str
) -> None:
    shop = Shop(GUARDED)
    opening(shop, "both", read=True)
    before = len(shop.rig.facts)
    error = opening(shop, client, read=read, write=write, queue=queue)
    assert isinstance(error, NoRight)
    assert said in str(error)
    facts = shop.rig.facts[before:]
    assert [f.user for f in facts if isinstance(f, AccessDenied)] == [client]
    assert not any(isinstance(fact, QueueCreated) for fact in facts)


def test_who_loses_a_right_that_it_uses_is_told_so() -> None:
    shop = Shop(PRIORITY)
    reader, writer, both = (shop.rig.session(name) for name in ("reader", "writer", "both"))
    opening(shop, "billing", read=True, session=reader)
    opening(shop, "shop", write=True, session=writer)
    opening(shop, "both", read=True, write=True, session=both)
    opening(shop, "both", read=True, write=True, session=both, queue=OTHER)
    assert not [e for e in shop.do(Reconfigure(GUARDED)) if isinstance(e, Revoked)]
    fewer = replace(GUARDED, readers=(), writers=("shop",))
    shown = [e for e in shop.do(Reconfigure(fewer)) if isinstance(e, Revoked)]
    assert shown == [Revoked(reader, "orders"), Revoked(both, "orders")]
