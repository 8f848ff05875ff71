"""The names of the wires, for those who count or ask by wire and open none."""

from __future__ import annotations

NAMES = ("bmq", "resp", "smp")
"""As facts, counters, the configuration and the command line call them."""
