"""Services, and one queue by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from headgate.server.desk.answers import (
    QueueAnswer,
    ServicesAnswer,
)
from headgate.server.desk.asking import (
    Asked,
)
from headgate.server.desk.queue_lookup import look_up
from headgate.server.desk.routes.path import PAGE

if TYPE_CHECKING:
    from headgate.server.desk.desk import Desk


async def services(desk: Desk, request: Request) -> ServicesAnswer:
    """Services with a subscriber."""
    asked = Asked(request, "sort", *PAGE)
    return desk.services.answer(asked.choice("sort", "queues", "any"), *asked.page())


async def queue(desk: Desk, request: Request) -> QueueAnswer:
    """One queue by its name, from memory or else with one question to the store."""
    return await look_up(desk, request.path_params["name"])
