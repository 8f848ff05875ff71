"""A client of the official SDK as a process of its own: ``python -m tests.support.bmq_sdk URL``,
and with a second argument under that name.

The SDK aborts its process when the broker breaks the protocol; a test must see that and live on.
Each line on standard input is a command, each line on standard output an answer to one, which has
its number, or an event: an acknowledgement, a message, or news of the session.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Mapping
from typing import Any, TypeAlias

import blazingmq
from blazingmq import (
    Ack,
    CompressionAlgorithmType,
    Message,
    MessageHandle,
    PropertyType,
    QueueOptions,
    Session,
    Timeouts,
)
from blazingmq.session_events import SessionEvent

Value: TypeAlias = int | str | bytes

TIMEOUT_SECONDS = 15.0
"""Of every request, and less than a test waits: the SDK's own error comes first."""


class Driver:
    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._session: Session | None = None
        self._handles: dict[tuple[str, str], MessageHandle] = {}
        self._lock = threading.Lock()

    @property
    def session(self) -> Session:
        assert self._session is not None, "start comes first"
        return self._session

    def run(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            number, name = command.pop("number"), command.pop("do")
            try:
                answer = getattr(self, f"do_{name}")(**command)
            except (blazingmq.Error, ValueError) as error:
                self._say(number=number, error=str(error))
            else:
                self._say(number=number, answer=answer)
            if name == "stop":
                return

    # Commands.

    def do_start(self, compress: bool) -> None:
        kind = CompressionAlgorithmType.ZLIB if compress else CompressionAlgorithmType.NONE
        self._session = Session(
            self._on_session_event,
            self._on_message,
            broker=self._broker,
            message_compression_algorithm=kind,
            timeout=Timeouts(*[TIMEOUT_SECONDS] * 5),
        )

    def do_stop(self) -> None:
        if self._session is not None:
            self._session.stop()

    def do_open(self, queue: str, read: bool, write: bool, options: dict[str, Any]) -> None:
        self.session.open_queue(queue, read=read, write=write, options=QueueOptions(**options))

    def do_configure(self, queue: str, options: dict[str, Any]) -> None:
        self.session.configure_queue(queue, QueueOptions(**options))

    def do_options(self, queue: str) -> dict[str, int | None]:
        found = self.session.get_queue_options(queue)
        return {
            "max_unconfirmed_messages": found.max_unconfirmed_messages,
            "max_unconfirmed_bytes": found.max_unconfirmed_bytes,
            "consumer_priority": found.consumer_priority,
        }

    def do_close(self, queue: str) -> None:
        self.session.close_queue(queue)

    def do_post(
        self,
        queue: str,
        body: str,
        properties: dict[str, int | str | list[str]],
        types: dict[str, str],
        post: int | None,
    ) -> None:
        """`post` is the number by which the acknowledgement is told, if there is to be one."""

        def on_ack(ack: Ack) -> None:
            guid = None if ack.guid is None else ack.guid.hex()
            self._say(event="ack", post=post, status=ack.status.name, guid=guid)

        self.session.post(
            queue,
            base64.b64decode(body),
            properties=decoded(properties),
            property_type_overrides={name: PropertyType[type] for name, type in types.items()},
            on_ack=None if post is None else on_ack,
        )

    def do_confirm(self, queue: str, guid: str) -> None:
        self._handles[queue, guid].confirm()

    # Events.

    def _on_session_event(self, event: SessionEvent) -> None:
        self._say(event="session", name=type(event).__name__, text=repr(event))

    def _on_message(self, message: Message, handle: MessageHandle) -> None:
        guid = message.guid.hex()
        self._handles[message.queue_uri, guid] = handle
        self._say(
            event="message",
            queue=message.queue_uri,
            guid=guid,
            body=base64.b64encode(message.data).decode(),
            properties=encoded(message.properties),
            types={name: type.name for name, type in message.property_types.items()},
        )

    def _say(self, **line: object) -> None:
        text = json.dumps(line) + "\n"
        with self._lock:
            sys.stdout.write(text)
            sys.stdout.flush()


def encoded(properties: Mapping[str, Value]) -> dict[str, int | str | list[str]]:
    """Properties for JSON, in which bytes are a list of one base64 text."""
    return {
        name: [base64.b64encode(value).decode()] if isinstance(value, bytes) else value
        for name, value in properties.items()
    }


def decoded(properties: Mapping[str, int | str | list[str]]) -> dict[str, Value]:
    return {
        name: base64.b64decode(value[0]) if isinstance(value, list) else value
        for name, value in properties.items()
    }


if __name__ == "__main__":
    if sys.argv[2:]:
        sys.modules["__main__"].__file__ = sys.argv[2]  # which the SDK takes for its name
    Driver(sys.argv[1]).run()
