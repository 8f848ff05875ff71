"""The states of a message in an app, and the ways between them.

All moves of a message between the places of an app are listed here. `App` holds the places,
delivery and returning move messages between them, and a law of the tests checks every move against
this table.

    FRESH ── taken ──────────▶ OUTSTANDING ── confirmed ──▶ GONE
      │ unmatched, full           │ given back
      ▼                           ▼
    ASIDE, WAITING ─ changed ─▶ AGAIN, BACK ── taken ──▶ OUTSTANDING
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from headgate.core.model.ids import Seq
from headgate.core.shared.app import App


class MessageState(Enum):
    """Where a message is in an app."""

    FRESH = "fresh"
    """In line, and not looked at yet."""
    AGAIN = "again"
    """In line once more, because the subscriptions changed. Before fresh messages."""
    BACK = "back"
    """Given back by a consumer, to be redelivered. Before all others."""
    ASIDE = "aside"
    """Matched by no subscription."""
    WAITING = "waiting"
    """Matched by groups that have no room."""
    OUTSTANDING = "outstanding"
    """With a consumer that has not confirmed it."""
    GONE = "gone"
    """No longer in this app."""


class Move(Enum):
    """A move of a message from one state to another."""

    TAKEN = "taken"
    """A matching consumer has room."""
    UNMATCHED = "unmatched"
    FULL = "full"
    """The matching groups have no room."""
    CHANGED = "changed"
    """The subscriptions of the app changed: messages that no consumer took are looked at again."""
    GIVEN_BACK = "given back"
    """The consumer left, or its connection was lost."""
    CLAIMED = "claimed"
    """Another reader took it over."""
    CONFIRMED = "confirmed"
    """By its consumer; a reader may also confirm a message that no consumer has."""
    POISONED = "poisoned"
    """Consumers were lost with it too often."""
    REMOVED = "removed"
    """It expired, was purged, or the domain lost the app."""


_S, _M = MessageState, Move
_LOOKED_AT = {_M.TAKEN: (_S.OUTSTANDING,), _M.UNMATCHED: (_S.ASIDE,), _M.FULL: (_S.WAITING,)}
_LEFT = {_M.CONFIRMED: (_S.GONE,), _M.REMOVED: (_S.GONE,)}
_IN_LINE_AGAIN = (_S.AGAIN, _S.BACK)
"""A message that a consumer once had is redelivered, and marked so."""

TRANSITIONS: Final[dict[MessageState, dict[Move, tuple[MessageState, ...]]]] = {
    _S.FRESH: {**_LOOKED_AT, **_LEFT},
    _S.AGAIN: {**_LOOKED_AT, **_LEFT},
    _S.BACK: {**_LOOKED_AT, **_LEFT},
    _S.ASIDE: {_M.CHANGED: _IN_LINE_AGAIN, _M.CLAIMED: (_S.OUTSTANDING,), **_LEFT},
    _S.WAITING: {
        _M.TAKEN: (_S.OUTSTANDING,),
        _M.CHANGED: _IN_LINE_AGAIN,
        **_LEFT,
    },
    _S.OUTSTANDING: {
        _M.GIVEN_BACK: (_S.BACK,),
        _M.CLAIMED: (_S.OUTSTANDING,),
        _M.POISONED: (_S.GONE,),
        **_LEFT,
    },
    _S.GONE: {},
}
"""By state and move: the possible next states."""


def states_of(app: App, seq: Seq) -> list[MessageState]:
    """The places of an app that hold a message. It is never in two of them."""
    places = {
        MessageState.FRESH: app.fresh,
        MessageState.AGAIN: app.again,
        MessageState.BACK: app.back,
        MessageState.ASIDE: app.aside,
        MessageState.WAITING: app.waiting,
        MessageState.OUTSTANDING: app.outstanding,
    }
    return [state for state, place in places.items() if seq in place]


def reachable(state: MessageState) -> set[MessageState]:
    """The states that a message may reach by any number of moves, its own included."""
    found = {state}
    line = [state]
    while line:
        for after in TRANSITIONS[line.pop()].values():
            line += [each for each in after if each not in found]
            found.update(after)
    return found
