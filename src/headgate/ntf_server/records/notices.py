"""The last notices: one of each subscription, and no more of a token than a push can have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headgate.core.model.value import value
from headgate.notify.notices import NoticeFate, fate_of
from headgate.notify.push_content import ENTRIES_MAX, NoticeEntry
from headgate.notify.tokens import Token
from headgate.ntf_server.records import subscriptions, tokens
from headgate.ntf_server.records.routers import RouterNumber
from headgate.ntf_server.records.tables import IDS, Tables
from headgate.wire.smp.codec.encoding import FieldReader
from headgate.wire.smp.codec.router_address import RouterAddress

FORGET_OLDEST: Final = """
DELETE FROM notices WHERE token = ? AND number <= (
    SELECT number FROM notices WHERE token = ? ORDER BY number DESC LIMIT 1 OFFSET ?
)
"""


@value
class RouterNotice:
    """A notice of a router: a notifier has a message."""

    notifier: bytes
    seconds: int
    """When it came."""
    nonce: bytes
    metadata: bytes


@value
class KeptFate:
    """The fate of a notice, as it is kept. A notice that is to be pushed has its token."""

    fate: NoticeFate
    token: Token | None


def keep(tables: Tables, router: RouterNumber, arrived: Sequence[RouterNotice]) -> list[KeptFate]:
    """Keep the notices of a router that are to be pushed, in their order, and say of each what
    became of it."""
    found = subscriptions.of_notifiers(tables, router, (each.notifier for each in arrived))
    owners = _tokens(tables, {each.token for each in found.values()})
    fates: list[KeptFate] = []
    kept: dict[bytes, tuple[bytes, RouterNotice]] = {}
    for notice in arrived:
        subscription = found.get(notice.notifier)
        token = owners.get(subscription.token) if subscription is not None else None
        fate = fate_of(subscription, token)
        fates.append(KeptFate(fate, token if fate is NoticeFate.PUSHED else None))
        if fate is NoticeFate.PUSHED:
            assert subscription is not None, "what is pushed has a subscription"
            kept.pop(subscription.id, None)
            kept[subscription.id] = subscription.token, notice
    _put(tables, kept)
    return fates


def latest(tables: Tables, token: bytes) -> list[NoticeEntry]:
    """The notices of the next push to a token, in the order in which they came."""
    rows = tables.ask(
        "SELECT s.address, s.notifier, n.seconds, n.nonce, n.metadata"
        " FROM notices AS n JOIN subscriptions AS s ON s.id = n.subscription"
        " WHERE n.token = ? ORDER BY n.number",
        token,
    )
    return [
        NoticeEntry(RouterAddress.read(FieldReader(address)).text, *rest) for address, *rest in rows
    ]


def newest(tables: Tables, token: bytes) -> int:
    """The number of the last notice of a token that has one."""
    return tables.number("SELECT max(number) FROM notices WHERE token = ?", token)


def settle(tables: Tables, pushed: Iterable[tuple[bytes, int]]) -> None:
    """Providers have answered pushes to these tokens, which had notices up to these numbers."""
    tables.change_many(
        "UPDATE notices SET waiting = ? WHERE token = ? AND number <= ? AND waiting",
        ((False, token, number) for token, number in pushed),
    )


def owners_waiting(tables: Tables, after: bytes, limit: int) -> list[Token]:
    """Tokens with notices that no provider has answered for, in the order of their ids."""
    rows = tables.ask(
        "SELECT DISTINCT token FROM notices WHERE waiting AND token > ? ORDER BY token LIMIT ?",
        after,
        limit,
    )
    found = _tokens(tables, {token for (token,) in rows})
    return sorted(found.values(), key=lambda token: token.id)


def _put(tables: Tables, kept: dict[bytes, tuple[bytes, RouterNotice]]) -> None:
    # The newest of each subscription takes the last place among those of its token.
    tables.change_many("DELETE FROM notices WHERE subscription = ?", ((id,) for id in kept))
    tables.change_many(
        "INSERT INTO notices (token, subscription, seconds, nonce, metadata, waiting)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            (token, id, notice.seconds, notice.nonce, notice.metadata, True)
            for id, (token, notice) in kept.items()
        ),
    )
    owners = dict.fromkeys(token for token, _ in kept.values())
    tables.change_many(FORGET_OLDEST, ((token, token, ENTRIES_MAX) for token in owners))


def _tokens(tables: Tables, ids: set[bytes]) -> dict[bytes, Token]:
    question = f"SELECT {tokens.COLUMNS} FROM tokens WHERE id {IDS}"
    return {token.id: token for token in map(tokens.decode, tables.ask_about(question, ids))}
