"""The agent: a client of SMP routers that remembers, reconnects and subscribes again.

The names here are the API for applications; a name is imported when it is first used, so that
unused parts are not loaded.

- `agent`: the object of an application; `agent_options`: its options; `event_sorting`,
  `event_stream`, `event_queue`: its `events`.
- `shell`: carries out the engine's decisions; `engine_driver`, `engine_requests`,
  `session_events`: its calls to the engine; `slot_sessions`, `router_session`: sessions with
  routers.
- `engine`: decides, without I/O; `model`: the identifiers that all parts share.
- `records`: its memory, in one file; `record_line`: the order of changes to it.
- `receiving`, `fetching`, `sending`, `queues`, `deleting`: messages, on top of the `ports`;
  `upkeep`: regular work.
- `connections`: two agents that write to each other.
- `notifying`: queues watched by a notification server, for a program that sleeps;
  `web_push_receiver`: how such a program receives pushes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.lazy_names import lazy_names

if TYPE_CHECKING:
    from headgate.agent.agent import Agent
    from headgate.agent.connections.connection import Connection, ConnectionState, Invitation
    from headgate.agent.connections.inviting import ContactAddress
    from headgate.agent.event_stream import AgentEvent
    from headgate.agent.events import (
        Confirmation,
        Connected,
        Deleted,
        Down,
        End,
        Failed,
        Info,
        Message,
        Mismatch,
        NamedQueue,
        Problem,
        ProblemKind,
        QueueFull,
        Receipt,
        Refusal,
        Request,
        Sent,
        ServiceAll,
        ServiceDown,
        ServiceEnd,
        ServiceUp,
        Skipped,
        StoreFailed,
        Suspended,
        Up,
        Warned,
    )
    from headgate.agent.push_token import PushedNotice, PushToken
    from headgate.agent.queues import OwnQueue
    from headgate.agent.router_status import RouterStatus
    from headgate.agent.sender_queue import SenderQueue
    from headgate.agent.subscribe_calls import SubscribeResult, SubscribeState
    from headgate.agent.web_push_receiver import WebPushReceiver

__all__ = [
    "Agent",
    "AgentEvent",
    "Confirmation",
    "Connected",
    "Connection",
    "ConnectionState",
    "ContactAddress",
    "Deleted",
    "Down",
    "End",
    "Failed",
    "Info",
    "Invitation",
    "Message",
    "Mismatch",
    "NamedQueue",
    "OwnQueue",
    "Problem",
    "ProblemKind",
    "PushToken",
    "PushedNotice",
    "QueueFull",
    "Receipt",
    "Refusal",
    "Request",
    "RouterStatus",
    "SenderQueue",
    "Sent",
    "ServiceAll",
    "ServiceDown",
    "ServiceEnd",
    "ServiceUp",
    "Skipped",
    "StoreFailed",
    "SubscribeResult",
    "SubscribeState",
    "Suspended",
    "Up",
    "Warned",
    "WebPushReceiver",
]

PLACES = {
    "Agent": "agent",
    "AgentEvent": "event_stream",
    "Connection": "connections.connection",
    "ConnectionState": "connections.connection",
    "ContactAddress": "connections.inviting",
    "Invitation": "connections.connection",
    "OwnQueue": "queues",
    "PushToken": "push_token",
    "PushedNotice": "push_token",
    "RouterStatus": "router_status",
    "SenderQueue": "sender_queue",
    "SubscribeResult": "subscribe_calls",
    "SubscribeState": "subscribe_calls",
    "WebPushReceiver": "web_push_receiver",
}
"""The modules of the names; all others are events."""

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "events") | PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
