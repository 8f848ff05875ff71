"""States of tokens and subscriptions, in the words of the protocol."""

from __future__ import annotations

from enum import Enum


class TokenStatus(Enum):
    """How far a token has come. `headgate.notify.tokens` has the table of its changes."""

    NEW = "NEW"
    REGISTERED = "REGISTERED"
    """Its code is on the way."""
    CONFIRMED = "CONFIRMED"
    """The provider took the code."""
    ACTIVE = "ACTIVE"
    """The app showed the code: the device is its own."""
    INVALID = "INVALID"
    """The provider does not know the device any more."""
    EXPIRED = "EXPIRED"


class InvalidReason(Enum):
    """Why a provider does not take pushes for a device."""

    BAD = "BAD"
    TOPIC = "TOPIC"
    """The device is one of another app."""
    EXPIRED = "EXPIRED"
    UNREGISTERED = "UNREGISTERED"


class SubscriptionStatus(Enum):
    """How far a subscription to a notifier has come; the table is that of
    `headgate.notify.subscriptions`."""

    NEW = "NEW"
    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
    END = "END"
    """Somebody else subscribed."""
    DELETED = "DELETED"
    """The queue is gone."""
    AUTH = "AUTH"
    """The router does not take the notifier's key."""
    SERVICE = "SERVICE"
    """The router does not take us as a service."""
    ERR = "ERR"
    """Another error of the router's; its text follows."""
