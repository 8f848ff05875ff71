"""A check of whether a router answers."""

from __future__ import annotations

import asyncio

from headgate.cli.agent.place import PROGRESS_SECONDS
from headgate.client.smp.handler import Unexpected
from headgate.client.smp.link import Link
from headgate.client.smp.recipient import Request
from headgate.client.smp.timing import PERSON_WAITS
from headgate.errors import HeadgateError
from headgate.wire.smp.codec.replies import Reply
from headgate.wire.smp.codec.router_address import RouterAddress


class SilentHandler:
    """The handler of a link that asks nothing."""

    def received(self, link: Link, entity: bytes, event: Reply) -> None:
        pass

    def answered_late(self, link: Link, request: Request, reply: Reply) -> None:
        pass

    def unexpected(self, link: Link, report: Unexpected) -> None:
        pass

    def lost(self, link: Link, reason: str) -> None:
        pass


async def reach(router: RouterAddress) -> HeadgateError | None:
    """Connect with a router and leave again: none if that works, else why it does not."""
    try:
        link = await Link.connect(router, SilentHandler(), timing=PERSON_WAITS)
    except HeadgateError as error:
        return error
    link.close()
    return None


async def reach_later(router: RouterAddress) -> HeadgateError | None:
    """Reach the router in a second, for a command that waits for something else meanwhile."""
    await asyncio.sleep(PROGRESS_SECONDS)
    return await reach(router)
