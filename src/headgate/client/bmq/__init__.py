"""An asyncio client of the BMQ wire, for a Headgate router or a BlazingMQ broker.

::

    async with await Client.connect("tcp://127.0.0.1:30114") as client:
        orders = await client.open("bmq://orders/incoming", read=True, write=True)
        await orders.post(b"a table", {"kind": "express"})
        async for delivery in orders:
            await delivery.confirm()

When the connection is lost it connects again, opens its queues as they were, and sends
unacknowledged messages again. A delivered message that was not confirmed comes again.
"""

from headgate.client.bmq.client import Client
from headgate.client.bmq.errors import Closed, NotAccepted, RequestRefused, Unreadable
from headgate.client.bmq.queue import Delivery, Queue
from headgate.client.bmq.session import Change, Lost, Restored
from headgate.client.bmq.subscription import Subscription
from headgate.errors import BadSubscription, NotConnected, Refused, TimedOut

connect = Client.connect

__all__ = [
    "BadSubscription",
    "Change",
    "Client",
    "Closed",
    "Delivery",
    "Lost",
    "NotAccepted",
    "NotConnected",
    "Queue",
    "Refused",
    "RequestRefused",
    "Restored",
    "Subscription",
    "TimedOut",
    "Unreadable",
    "connect",
]
