"""The simulator of whole worlds, and what tests of stores and routers are made with."""
