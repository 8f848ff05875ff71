"""The simulator of whole worlds, and what tests of stores and routers are made with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.lazy_names import lazy_names

if TYPE_CHECKING:
    from headgate.testing.clock import Clock
    from headgate.testing.rig import Rig
    from headgate.testing.smp_client import SmpClient
    from headgate.testing.world import World

__all__ = ["Clock", "Rig", "SmpClient", "World"]

PLACES = {"Clock": "clock", "Rig": "rig", "SmpClient": "smp_client", "World": "world"}

__getattr__ = lazy_names(__name__, PLACES)
