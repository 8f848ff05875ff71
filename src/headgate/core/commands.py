"""Commands: the requests of sessions, whatever their protocol. `ref` comes back in the reply."""

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
    """Become the subscriber of an exclusive queue, displacing the present one."""

    session: SessionId
    ref: Ref
    queue: QueueId
    service: ServiceId | None = None
    """The service that the session belongs to, if any: the queue becomes the service's."""
    proof: Proof | None = None


@value
class Get:
    """Read the first message of an exclusive queue without subscribing to it."""

    session: SessionId
    ref: Ref
    queue: QueueId
    proof: Proof | None = None


@value
class Send:
    """Send a message to a queue, which may be named by its sender's id instead."""

    session: SessionId
    ref: Ref
    queue: QueueId
    message: Message
    via: Address | None = None
    proof: Proof | None = None


@value
class Confirm:
    """Confirm deliveries. Without a message, the first one is delivered once more."""

    session: SessionId
    ref: Ref
    queue: QueueId
    messages: tuple[MessageId, ...]
    app: AppId = WHOLE
    proof: Proof | None = None


@value
class Amend:
    """Change the parties of an exclusive queue, or read them."""

    session: SessionId
    ref: Ref
    queue: QueueId
    change: Change
    via: Address | None = None
    proof: Proof | None = None


@value
class Inspect:
    """Read the state of an exclusive queue."""

    session: SessionId
    ref: Ref
    queue: QueueId
    proof: Proof | None = None


@value
class Watch:
    """Receive notices of messages in a queue as its notifier, displacing the present one."""

    session: SessionId
    ref: Ref
    notifier: bytes
    service: ServiceId | None = None
    proof: Proof | None = None


@value
class Identify:
    """Find the service of a certificate that a session has shown."""

    session: SessionId
    ref: Ref
    fingerprint: bytes
    role: str
    service: ServiceId
    """The id for the service if the certificate is a new one."""


@value
class SubscribeService:
    """Become the subscriber of all queues of a service."""

    session: SessionId
    ref: Ref
    service: ServiceId
    expected: Tally | None = None
    """The tally that the session expects of its queues."""
    sweeps: bool = True
    """Whether waiting messages are delivered. A notifier has none."""


@value
class Sweep:
    """Go on through a service's queues after the given one. The core sends this to itself."""

    session: SessionId
    service: ServiceId
    after: QueueId
    membership: object
    """The subscription that it is part of: a later one of the same session sweeps by itself."""


@value
class Open:
    """Open a shared queue for reading, writing or both; if it does not exist it is made."""

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
    """The name that the client proved; None if it did not have to."""


@value
class Configure:
    """Replace the subscriptions of an open queue; none at all stops deliveries."""

    session: SessionId
    ref: Ref
    queue: QueueId
    interests: tuple[Interest, ...]
    app: AppId = WHOLE
    compiled: Compiled = field(default_factory=dict, compare=False, repr=False)


@value
class Close:
    """Close a shared queue; other consumers get its unconfirmed messages."""

    session: SessionId
    ref: Ref
    queue: QueueId
    app: AppId = WHOLE


@value
class Land:
    """Add a batch of a sink to a shared queue: all of its messages, or none. The queue is made if
    it does not exist. A batch that was committed before is answered, and not added again."""

    session: SessionId
    ref: Ref
    sink: str
    batch: int
    queue: QueueId
    domain: str
    messages: tuple[Message, ...]


@value
class RememberBatch:
    """Remember a batch that a sink published on channels, which have no memory of their own."""

    session: SessionId
    ref: Ref
    sink: str
    batch: int
    messages: int


@value
class ForgetSink:
    """Forget the last batch of a sink: the next one is accepted, whatever its number."""

    session: SessionId
    ref: Ref
    sink: str


@value
class Purge:
    """Remove the messages that a shared queue holds now, delivered or not, and the queue itself if
    `removes`: not an open one, unless `forced`. The core goes on by itself until it is done."""

    session: SessionId
    ref: Ref
    queue: QueueId
    domain: str
    removes: bool = False
    forced: bool = False
    upto: Seq | None = None
    """The last message at the time of the request."""
    messages: int = 0
    """Number of messages removed so far."""


@value
class Reconfigure:
    """Apply new settings of a domain. Its mode stays."""

    domain: Domain


@value
class Drained:
    """Note that the mailbox of a session has room again."""

    session: SessionId


@value
class Disconnect:
    """Clean up after a session that is gone. `lost` means that it did not close itself."""

    session: SessionId
    lost: bool = True


@value
class Sealed:
    """Note that the journal has all facts up to this number in a segment."""

    last: int


@value
class Look:
    """Go on seeking consumers for the messages in line for an app. The core sends this to
    itself."""

    queue: QueueId
    app: AppId
    groups: tuple[str | None, ...] = ()
    """Expressions of groups that have room, and messages that wait for it."""


@value
class LookAgain:
    """Look once more at the messages that an app put aside, as if its subscriptions had changed. An
    operator requests it."""

    session: SessionId
    ref: Ref
    queue: QueueId
    app: AppId


@value
class GiveBack:
    """Go on taking messages back from a consumer that left. Until then no other consumer gets them.
    The core sends this to itself; `ref` is that of a `Close`."""

    session: SessionId
    ref: Ref | None
    queue: QueueId
    app: AppId
    messages: tuple[Seq, ...]
    lost: bool


@value
class Prune:
    """Go on removing expired messages of shared queues. The core sends this to itself until all are
    removed."""


@value
class Notify:
    """Send notifiers the notices that wait."""


@value
class Expire:
    """Remove expired messages of exclusive queues, from a number on. The core goes on by itself
    until it is done."""

    after: Seq = Seq(0)


@value
class ExpireUnopened:
    """Remove expired messages of shared queues that were not opened since the router started, from
    a number on. The core goes on by itself until it is done."""

    after: Seq = Seq(0)


@value
class CountDomain:
    """Count the messages and bytes of a domain in the store, before its first use."""

    domain: str


@value
class RemoveUnused:
    """Remove empty queues that were not opened since the router started, if that is long ago: of
    all domains, or of one after an id. The core goes on by itself until it is done."""

    domain: str | None = None
    after: QueueId = QueueId(b"")


@value
class Tick:
    """Do what is due as time passes: expire messages, look for stuck queues."""


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
"""The commands whose answer a session waits for."""
