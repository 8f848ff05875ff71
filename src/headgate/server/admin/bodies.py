"""The bodies of requests: so many bytes in so much time, and the properties of messages in them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from headgate.core.model.message import PropertyValue

BODY_SECONDS = 30.0
"""How long the body of a request may take; that of a sink's rows may take longer."""


async def read_body(request: Request, most: int, seconds: float | None = None) -> bytes:
    """All of it; refused if it has more bytes, or takes longer."""
    body = bytearray()
    with suppress(ClientDisconnect):  # then nobody waits for the answer
        try:
            async with asyncio.timeout(BODY_SECONDS if seconds is None else seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise HTTPException(413, f"a body has at most {most} bytes here")
        except TimeoutError:
            raise HTTPException(408, "the body of the request did not come to its end") from None
    return bytes(body)


def property_of(name: str, item: object) -> PropertyValue:
    """The value of a property as JSON has it."""
    match item:
        case bool() | int() | str():
            return item
        case {"hex": str(digits), **rest} if not rest:
            with suppress(ValueError):
                return bytes.fromhex(digits)
    raise HTTPException(
        400,
        f"property {name!r}: a value is true or false, a whole number, a text, or bytes written"
        ' as {"hex": "00ff"}',
    )
