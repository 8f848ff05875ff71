"""A notification server that expects to be killed, and whose provider prints what it is given.

    python -m tests.crash.ntf_program FOLDER PORT

The first line is `ready ADDRESS`; each other one is `push DEVICE JSON`, and the device has the push
when it is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from headgate.notify.outcomes import Delivered, PushOutcome
from headgate.notify.push_content import Push, web_push_json
from headgate.ntf_server.apps.settings import AppSettings
from headgate.ntf_server.host import NtfHost
from headgate.ntf_server.server import NtfServer, NtfSettings
from headgate.server.identity import Identity
from headgate.wire.ntf.devices import Device, Provider
from tests.support.ntf_notifiers import QUICK


class PrintingProvider:
    """Takes every push."""

    async def push(self, device: Device, push: Push) -> PushOutcome:
        print("push", device.encode().hex(), web_push_json(push).decode(), flush=True)
        return Delivered()

    async def close(self) -> None:
        pass


async def serve(folder: Path, port: int) -> None:
    identity = await asyncio.to_thread(Identity.open, folder / "ntf", "localhost", time.time())
    apps = AppSettings(
        providers=frozenset({Provider.APNS_TEST}), registrations_per_minute=1_000_000
    )
    settings = NtfSettings(port=port, apps=apps, shell=QUICK)
    providers = {Provider.APNS_TEST: PrintingProvider()}
    async with await NtfServer.open(NtfHost(), identity, folder, settings, providers) as server:
        print("ready", server.address, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    options = parser.parse_args()
    asyncio.run(serve(options.folder, options.port))


if __name__ == "__main__":
    main()
