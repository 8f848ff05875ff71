"""Settings in effect, and the rights of whoever asks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request

from headgate.server.admin.guard import OPERATOR
from headgate.server.desk.answers import (
    MeAnswer,
    SettingsAnswer,
)
from headgate.server.desk.settings import settings_page

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk


async def settings(desk: Desk, request: Request) -> SettingsAnswer:
    """The configuration in effect."""
    # To read what every key means takes a while, the first time.
    return await asyncio.to_thread(settings_page, desk.started(), desk.latest(), desk.version)


async def me(desk: Desk, request: Request) -> MeAnswer:
    """The viewer who asks, and what it may do."""
    return MeAnswer(
        operator=bool(request.scope.get(OPERATOR)),
        actions=desk.has_actions,
        bodies=desk.latest().desk.bodies,
        version=desk.version,
        options=desk.command_options(),
    )
