"""Commands: all that a session may ask, whatever its protocol. `ref` comes back in the reply."""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from headgate.core.model.domain import Domain
from headgate.core.model.ids import WHOLE, AppId, MessageId, QueueId, Ref, Seq, ServiceId, SessionId
from headgate.core.model.interest import Compiled as Compiled
from headgate.core.model.interest import Interest as Interest
from headgate.core.model.message import Message
from headgate.core.model.parties import Address, Change, Parties, Proof
from headgate.core.model.tally import Tally
from headgate.core.model.value import value
from headgate.core.reader_commands import ReaderCommand, ReaderRequest


@value
class Create:
    """Make an exclusive queue and, if asked, subscribe to it.

    In a service's session the queue is the service's from the beginning.
    """

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    subscribe: bool = False
    service: ServiceId | None = None
    parties: Parties | None = None


@value
class Delete:
    """Remove an exclusive queue and its messages."""

    session: SessionId
    ref: Ref
    queue: QueueId
    proof: Proof | None = None


@value
class Subscribe:
    """Become the subscriber of an exclusive queue, displacing whoever is."""

    session: SessionId
    ref: Ref
    queue: QueueId
    service: ServiceId | None = None
    """The identity of the session, if it has one: the queue becomes the service's."""
    proof: Proof | None = None


@value
class Get:
    """Read the head of an exclusive queue without subscribing to it."""

    session: SessionId
    ref: Ref
    queue: QueueId
    proof: Proof | None = None


@value
class Send:
    """Put a message into a queue, which may be named by its sender's id instead."""

    session: SessionId
    ref: Ref
    queue: QueueId
    message: Message
    via: Address | None = None
    proof: Proof | None = None


@value
class Confirm:
    """The session is done with deliveries. No message at all asks for the head once more."""

    session: SessionId
    ref: Ref
    queue: QueueId
    messages: tuple[MessageId, ...]
    app: AppId = WHOLE
    proof: Proof | None = None


@value
class Amend:
    """Change who may do what with an exclusive queue, or read it."""

    session: SessionId
    ref: Ref
    queue: QueueId
    change: Change
    via: Address | None = None
    proof: Proof | None = None


@value
class Inspect:
    """Ask about an exclusive queue without changing anything."""

    session: SessionId
    ref: Ref
    queue: QueueId
    proof: Proof | None = None


@value
class Watch:
    """Be told of messages of a queue as its notifier, displacing whoever is."""

    session: SessionId
    ref: Ref
    notifier: bytes
    service: ServiceId | None = None
    proof: Proof | None = None


@value
class Identify:
    """A session shows the certificate of a service: which service is it?"""

    session: SessionId
    ref: Ref
    fingerprint: bytes
    role: str
    service: ServiceId
    """Its id if the certificate is a new one."""


@value
class SubscribeService:
    """Become the subscriber of all queues of a service."""

    session: SessionId
    ref: Ref
    service: ServiceId
    expected: Tally | None = None
    """What the session believes its queues to be."""
    sweeps: bool = True
    """Whether what waits is delivered. For a notifier there is nothing that could be."""


@value
class Sweep:
    """Go on through a service's queues after the given one. The core asks this of itself."""

    session: SessionId
    service: ServiceId
    after: QueueId
    membership: object
    """The subscription it belongs to: a later one of the same session sweeps by itself."""


@value
class Open:
    """Open a shared queue for reading, writing or both; it is made if it is not there."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    app: AppId = WHOLE
    read: bool = True
    write: bool = False
    interests: tuple[Interest, ...] = ()
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)
    client: str = ""
    """The name that the client proved; none if it did not have to."""


@value
class Configure:
    """Replace the subscriptions of an open queue; none at all stops its deliveries."""

    session: SessionId
    ref: Ref
    queue: QueueId
    interests: tuple[Interest, ...]
    app: AppId = WHOLE
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)


@value
class Close:
    """Close a shared queue; what was not confirmed is delivered again, to somebody else."""

    session: SessionId
    ref: Ref
    queue: QueueId
    app: AppId = WHOLE


@value
class Land:
    """Put a batch of a sink into a shared queue: all of its messages, or none. The queue is made
    if it is not there. A batch that the sink has landed before is answered, and not done."""

    session: SessionId
    ref: Ref
    sink: str
    batch: int
    queue: QueueId
    domain: str
    messages: tuple[Message, ...]


@value
class RememberBatch:
    """A batch of a sink was published on channels, which have no memory of their own."""

    session: SessionId
    ref: Ref
    sink: str
    batch: int
    messages: int


@value
class ForgetSink:
    """Forget which batch of a sink was the last: the next one is done, whatever its number."""

    session: SessionId
    ref: Ref
    sink: str


@value
class Purge:
    """Remove the messages that a shared queue holds now, whoever has them, and the queue itself if
    `removes`: not one that is open, unless `forced`. The core goes on by itself until it is
    through."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    removes: bool = False
    forced: bool = False
    upto: Seq | None = None
    """The last message when it was asked."""
    messages: int = 0
    """How many went so far."""


@value
class Reconfigure:
    """A domain has new settings. Its mode stays."""

    domain: Domain


@value
class Drained:
    """The mailbox of a session has room again."""

    session: SessionId


@value
class Disconnect:
    """A session is gone. `lost` means without saying goodbye."""

    session: SessionId
    lost: bool = True


@value
class Sealed:
    """The journal has every fact up to this number in a segment."""

    last: int


@value
class Look:
    """Go on seeking consumers for what is in line for an app. The core asks this of itself."""

    queue: QueueId
    app: AppId
    groups: tuple[str | None, ...] = ()
    """Texts of subscriptions that have room, and messages waiting for that."""


@value
class LookAgain:
    """Have what an app put aside looked at once more, as if its subscriptions had changed. An
    operator asks for it."""

    session: SessionId
    ref: Ref
    queue: QueueId
    app: AppId


@value
class GiveBack:
    """Go on taking messages back from a consumer that left. Until then they are in its hands, and
    nobody else gets them. The core asks this of itself; `ref` is that of a `Close`."""

    session: SessionId
    ref: Ref | None
    queue: QueueId
    app: AppId
    messages: tuple[Seq, ...]
    lost: bool


@value
class Prune:
    """Go on removing messages of shared queues whose time is over. The core asks this of itself
    until it is through."""


@value
class Notify:
    """Tell notifiers what there is to tell them."""


@value
class Expire:
    """Remove exclusive queues' messages whose time is over, from a number on. The core goes on
    by itself until it is through."""

    after: Seq = Seq(0)


@value
class ExpireUnopened:
    """Remove messages whose time is over of shared queues that nobody opened since the router
    started, from a number on. The core goes on by itself until it is through."""

    after: Seq = Seq(0)


@value
class CountDomain:
    """Count what the queues of a domain hold in the store, before anybody uses them."""

    domain: str


@value
class RemoveUnused:
    """Remove empty queues that nobody opened since the router started, if that is long ago: of all
    domains, or of one after an id. The core goes on by itself until it is through."""

    domain: str | None = None
    after: QueueId = QueueId(b"")


@value
class Tick:
    """Time passed: expire messages, look for stuck queues."""


Command: TypeAlias = (
    Create
    | Delete
    | Subscribe
    | Get
    | Send
    | Confirm
    | Amend
    | Inspect
    | Watch
    | Identify
    | SubscribeService
    | Sweep
    | Open
    | Configure
    | Close
    | Land
    | RememberBatch
    | ForgetSink
    | Purge
    | Reconfigure
    | Drained
    | Disconnect
    | Sealed
    | Look
    | LookAgain
    | GiveBack
    | Prune
    | Notify
    | Expire
    | ExpireUnopened
    | CountDomain
    | RemoveUnused
    | Tick
    | ReaderCommand
)

Request: TypeAlias = (
    Create
    | Delete
    | Subscribe
    | Get
    | Send
    | Confirm
    | Amend
    | Inspect
    | Watch
    | Identify
    | SubscribeService
    | Open
    | Configure
    | Close
    | Land
    | RememberBatch
    | ForgetSink
    | Purge
    | LookAgain
    | ReaderRequest
)
"""The commands that a session waits for the answer of."""
