"""Facts of the router itself."""

from __future__ import annotations

from typing import TypeAlias

from headgate.core.model.fact_kind import FactCounter, fact
from headgate.core.model.ids import SessionId


@fact(FactCounter("starts", "Starts of the router in this process."), rare=False, log=None)
class RouterStarted:
    """The router started; all earlier sessions are over, and their numbers are used again."""

    at: float
    version: str


@fact(
    FactCounter("limits_reached", "Bounds of the router that were reached.", ("name",)),
    rare=True,
    log="warning",
)
class LimitReached:
    """A limit of the router was reached."""

    at: float
    name: str
    limit: int
    session: SessionId


@fact(FactCounter("turn_failures", "Turns that the store refused."), rare=False, log="error")
class TurnFailed:
    """The store refused a turn; none of its commands happened."""

    at: float
    commands: int
    reason: str


@fact(
    FactCounter("facts_counted", "Floods of facts that were counted, not told."),
    rare=False,
    log=None,
)
class FactsCounted:
    """So many more facts of a kind came in one second than are recorded one by one."""

    at: float
    fact: str
    count: int


@fact(
    FactCounter("journal_expirations", "Times old segments were removed."), rare=False, log="info"
)
class SegmentsExpired:
    """The oldest facts of the journal, up to this number, were removed to keep its limits."""

    at: float
    last: int
    size: int


@fact(FactCounter("sink_batches", "Batches of sinks that were committed."), rare=False, log=None)
class SinkCommitted:
    """A batch of a sink, with so many messages, is in its queue or was published."""

    at: float
    sink: str
    batch: int
    messages: int


@fact(
    FactCounter("sinks_forgotten", "Sinks whose last batch was forgotten."), rare=False, log="info"
)
class SinkForgotten:
    """The last batch of a sink was forgotten: it was not used for long, or an operator asked for
    it."""

    at: float
    sink: str
    batch: int


@fact(
    FactCounter("admin_actions", "Actions of operators, and what became of them.", ("action",)),
    rare=False,
    log="warning",
)
class AdminActed:
    """An operator's action. It is recorded before it is carried out, with the outcome "begun", and
    again with its outcome."""

    at: float
    actor: str
    action: str
    target: str
    reason: str
    outcome: str


@fact(
    FactCounter("admin_refusals", "Wrong tokens at the login of the admin port."),
    rare=True,
    log="warning",
)
class AdminRefused:
    """A login at the admin port from this address failed by a wrong token."""

    at: float
    peer: str


@fact(
    FactCounter("ownership_taken", "Times this router became the owner of its store.", ("reason",)),
    rare=True,
    log="warning",
)
class OwnershipTaken:
    """This router owns the store from now on. `reason` is what had become of the last owner: "free"
    if there was none, "gone" if its connection ended, "silent" if that was ended for it. It waited
    for so many seconds."""

    at: float
    name: str
    previous: str
    reason: str
    term: int
    seconds: float


@fact(
    FactCounter("owner_silences", "Times the store had not heard its owner for too long."),
    rare=True,
    log="warning",
)
class OwnerSilent:
    """The store had not heard from this router for so many seconds, longer than `owner_timeout`. No
    other router has taken it over meanwhile, and turns go on."""

    at: float
    seconds: float


@fact(
    FactCounter("store_went_back", "Times the store was found in an earlier state."),
    rare=True,
    log="error",
)
class StoreWentBack:
    """The store has fewer batches than before: it was restored to an earlier state, and messages
    accepted or confirmed since then are as if they had not been."""

    at: float
    expected: int
    found: int


RouterFact: TypeAlias = (
    RouterStarted
    | LimitReached
    | TurnFailed
    | FactsCounted
    | SegmentsExpired
    | SinkCommitted
    | SinkForgotten
    | AdminActed
    | AdminRefused
    | OwnershipTaken
    | OwnerSilent
    | StoreWentBack
)
