"""Clients of the wires and of the admin port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.lazy_names import lazy_names

if TYPE_CHECKING:
    from headgate.client import admin, bmq, ntf, resp, smp

__all__ = ["admin", "bmq", "ntf", "resp", "smp"]

__getattr__ = lazy_names(__name__, {}, __all__)
