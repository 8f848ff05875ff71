"""Changes of who wants what, for tests."""

from __future__ import annotations

from headgate.core.model.ids import QueueId
from headgate.pipeline.tables.wishes import Change

Q = QueueId(b"bmq://shop.orders/new")
OTHER = QueueId(b"bmq://shop.orders/old")


def wants(number: int, session: int, *texts: str | None, queue: bytes = Q) -> list[Change]:
    if not texts:
        return [_row(number, "Interested", session, 0, None, queue)]
    return [
        _row(number + place, "Interested", session, place, text, queue)
        for place, text in enumerate(texts)
    ]


def _row(
    number: int, kind: str, session: int, place: int, text: str | None, queue: bytes
) -> Change:
    return Change(number, kind, queue, "", session, place, text)


def leaves(number: int, session: int) -> list[Change]:
    return [_row(number, "Unsubscribed", session, 0, None, Q)]


def restart(number: int) -> list[Change]:
    return [Change(number, "RouterStarted", None, None, None, None, None)]
