"""The port behind which batches are applied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from headgate.core.model.ids import Seq
from headgate.core.model.value import value
from headgate.core.turn.store_requests import Batch, Load, Loaded
from headgate.store.ownership import Ownership


@value
class Extent:
    """How much is in a store, or was copied of it."""

    queues: int = 0
    messages: int = 0


class Outbox(Protocol):
    """The outbox of a store as the sealer reads it: a connection of its own that only reads, whose
    short reads hold up nobody."""

    def rows(self, after: int, upto: int, bytes_max: int) -> list[tuple[int, int, bytes]]:
        """First and last number and facts of the rows after a number and up to another, in
        order, until there are so many bytes."""

    def close(self) -> None: ...


class Store(Protocol):
    """A place where turns leave what must outlive them.

    Many is the normal case: there is no way to read or write one queue, and the number of
    statements does not depend on how many queues, messages or services a call names. Every
    failure is a `StoreError`, and a failed `apply` changed nothing.
    """

    kind: str
    """What it is called in metrics and messages: memory, sqlite, postgresql."""

    is_distant: bool
    """Whether each call pays for a way to somewhere else, so that large turns are worth it."""

    @property
    def source(self) -> str | None:
        """The URL by which another process finds the outbox; none if nothing outlives this
        process."""

    @property
    def statements(self) -> int:
        """How many were executed so far; 0 where there is no such thing."""

    async def open(self) -> Seq:
        """Make ready, bring the schema up to date; return the largest number of a message
        that is still there, or 0."""

    async def load(self, load: Load) -> Loaded:
        """Read what a turn needs.

        Unknown queues, addresses, services, certificates and bodies are absent from the answer.
        A queue that exists has a head even when it is empty: nobody has to ask a second time. A
        queue that is asked for under several ids has one head, with as many first messages as
        the largest of the numbers. Every page and every domain that was asked for is there, with
        nothing in it if nothing is known. A queue that is damaged is named as such, and all
        others are answered.
        """

    async def apply(self, batch: Batch) -> None:
        """Do the whole batch in one transaction. When this returns, the batch survives a
        crash of the process and of the machine, as far as the store promises that at all.

        It fails if it creates a queue that exists, appends under a number that is taken or
        to a queue that does not exist, or amends or associates a queue that does not exist. It
        fails if two queues would have the same id of a sender, of a notifier or of a link when
        it is done; on the way there, one queue may take over what another gives up. And it fails
        if it makes a certificate or a service known that is known. To hold or delete a message,
        or remove a queue, that is not there is no failure. A caller that is cancelled while it
        waits does not know whether the batch was done; half of it never is.
        """

    async def probe(self) -> None:
        """A small question: return if the store can be used, fail if it cannot. It waits for
        what is under way, is no part of `statements`, and changes nothing."""

    async def unsealed(self) -> tuple[int, int]:
        """The largest number of a fact in the outbox, and how many bytes are there; zeros if
        it is empty. Asked once, after `open`."""

    async def extent(self) -> Extent:
        """How much there is."""

    def batches(self) -> AsyncIterator[Batch]:
        """Everything, as batches that make a copy of it in an empty store; none if it is empty.
        Nothing may be applied meanwhile."""

    async def close(self) -> None:
        """Finish what is under way and let go of every resource. May be called twice."""


@runtime_checkable
class OwnedStore(Store, Protocol):
    """A store that routers may take over from one another."""

    @property
    def ownership(self) -> Ownership | None:
        """What is known of the right to it; None if this one waits for nobody, and nobody may take
        it over."""

    async def current_term(self) -> int | None:
        """The number of the term of whoever owns it now, asked beside what is under way; None if
        there is no answer."""
