"""Messages of a domain, as they are published on its channel."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from headgate.core.model.binding import Spoken

_encode = msgspec.json.Encoder().encode


def spoken_body(spoken: Spoken) -> bytes:
    """The body as it is, or a JSON text with everything. Bytes that are not text become base64."""
    message = spoken.message
    if spoken.form == "body":
        return message.body
    found: dict[str, Any] = {
        "id": message.id.hex(),
        "queue": spoken.queue.decode(),
        "properties": {
            name: b64encode(item).decode() if isinstance(item, bytes) else item
            for name, item in message.properties.items()
        },
    }
    try:
        found["body"] = message.body.decode()
    except UnicodeDecodeError:
        found["body64"] = b64encode(message.body).decode()
    return _encode(found)
