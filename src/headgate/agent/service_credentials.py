"""The certificate of a user for a router: made once, stored, and used again."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.agent.model import RouterId, UserId
from headgate.agent.record_line import RecordLine
from headgate.agent.records import Database, services
from headgate.agent.records.services import Credentials
from headgate.client.smp.service import Service, make_service
from headgate.errors import StoreError


async def credentials_of(
    line: RecordLine[Database], user: UserId, router: RouterId, now: float
) -> Service:
    """The service of a user at a router. A new one is in the records before it is used: otherwise a
    crash would leave queues at the router that belong to a lost certificate."""
    # S001-7, S004-16: one for each user and router.
    kept = await line.read(services.get, user, router)
    if kept is None:
        fresh = make_service(now)
        raw = fresh.private.private_bytes_raw()
        made = Credentials(fresh.certificate, raw, fresh.fingerprint)
        kept = await line.change(keep_first, user, router, made)
    credentials = kept.credentials
    try:
        private = Ed25519PrivateKey.from_private_bytes(credentials.private_key)
    except ValueError:
        raise StoreError("the key of a service is damaged in the records") from None
    return Service(credentials.certificate, private)


def keep_first(
    tables: Database, user: UserId, router: RouterId, made: Credentials
) -> services.Service:
    """Store these credentials, unless there are some."""
    if services.get(tables, user, router) is None:
        services.put_credentials(tables, user, router, made)
    kept = services.get(tables, user, router)
    assert kept is not None, "credentials that were just kept"
    return kept
