"""The port of stores, which apply batches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from headgate.core.model.ids import Seq
from headgate.core.model.value import value
from headgate.core.turn.store_requests import Batch, Load, Loaded
from headgate.store.ownership import Ownership


@value
class Extent:
    """The contents of a store in numbers, or of the part copied so far."""

    queues: int = 0
    messages: int = 0


class Outbox(Protocol):
    """The outbox of a store as the sealer reads it: a connection of its own that only reads, whose
    short reads block no other work."""

    def rows(self, after: int, upto: int, bytes_max: int) -> list[tuple[int, int, bytes]]:
        """First number, last number and facts of the rows after a number and up to another, in
        order, up to so many bytes."""

    def close(self) -> None: ...


class Store(Protocol):
    """The place where turns store the state that must outlive them.

    Many is the normal case: no call reads or writes a single queue, and the number of statements
    does not depend on how many queues, messages or services a call names. Every failure is a
    `StoreError`, and a failed `apply` changed nothing.
    """

    kind: str
    """Its name in metrics and messages: memory, sqlite, postgresql."""

    is_distant: bool
    """Whether each call takes a round trip to another machine, so that large turns are worth it."""

    @property
    def source(self) -> str | None:
        """The URL by which another process finds the outbox; None if nothing outlives this
        process."""

    @property
    def statements(self) -> int:
        """Number of statements executed so far; 0 where there are none."""

    async def open(self) -> Seq:
        """Make ready, with the newest schema; return the largest number of a stored message, or
        0."""

    async def load(self, load: Load) -> Loaded:
        """Read what a turn needs.

        Unknown queues, addresses, services, certificates and bodies are absent from the answer. A
        queue that exists has a head even when it is empty, so that it is not loaded again. A queue
        that is named by several ids has one head, with as many first messages as the largest of the
        numbers. Every requested page and domain is in the answer, empty if nothing is known. A
        damaged queue is named as such, and all others are answered.
        """

    async def apply(self, batch: Batch) -> None:
        """Do the whole batch in one transaction. When this returns, the batch survives a crash of
        the process and of the machine, if the store gives that guarantee at all.

        It fails if it creates a queue that exists, appends under a number that is taken or to a
        queue that does not exist, or amends or associates a queue that does not exist. It fails if
        two queues would have the same id of a sender, of a notifier or of a link when it is done;
        in between, one queue may take over an id that another gives up. And it fails if it adds a
        certificate or a service that exists. Holding or deleting a missing message, or removing a
        missing queue, is not an error. A caller that is cancelled while it waits does not know
        whether the batch was applied; half of it never is.
        """

    async def probe(self) -> None:
        """A small read: return if the store can be used, fail if it cannot. It waits for calls
        under way, does not count as a statement, and changes nothing."""

    async def unsealed(self) -> tuple[int, int]:
        """The largest number of a fact in the outbox, and its bytes; zeros if it is empty. Called
        once, after `open`."""

    async def extent(self) -> Extent:
        """The contents of the store in numbers."""

    def batches(self) -> AsyncIterator[Batch]:
        """All contents, as batches that make a copy in an empty store; none if it is empty. No
        batch may be applied meanwhile."""

    async def close(self) -> None:
        """Finish calls under way and release every resource. May be called twice."""


@runtime_checkable
class OwnedStore(Store, Protocol):
    """A store that routers may take over from one another."""

    @property
    def ownership(self) -> Ownership | None:
        """This router's right to the store; None if it waits for no other router, and no other may
        take it over."""

    async def current_term(self) -> int | None:
        """The number of the present owner's term, read beside calls under way; None if there is no
        answer."""
