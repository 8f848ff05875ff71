"""Worlds of a notification server: a real one, and apps, routers and a provider that are simulated.

`world.NtfWorld` has them all under one seed. See docs/design/worlds.md.
"""
