"""The certificate that is shown to a router: made once for each, kept, and shown again."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headgate.agent.record_line import RecordLine
from headgate.client.smp.service import Service, make_service
from headgate.errors import StoreError
from headgate.ntf_server.records import Tables, routers
from headgate.ntf_server.records.routers import RouterNumber, ServiceCredentials


async def credentials_of(line: RecordLine[Tables], router: RouterNumber, now: float) -> Service:
    """The service that we are at a router. It is in the records before it is shown: otherwise a
    crash would leave subscriptions at the router that belong to a lost certificate."""
    # S001-89, S004-27: one for each router, so that routers cannot compare.
    record = await line.read(routers.get, router)
    kept = None if record is None else record.credentials
    if kept is None:
        fresh = make_service(now)
        raw = fresh.private.private_bytes_raw()
        kept = ServiceCredentials(fresh.certificate, raw, fresh.fingerprint)
        await line.change(routers.put_credentials, router, kept)
    try:
        private = Ed25519PrivateKey.from_private_bytes(kept.private_key)
    except ValueError:
        raise StoreError("the key of a service is damaged in the records") from None
    return Service(kept.certificate, private)
