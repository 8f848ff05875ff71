"""The notification server: it subscribes to notifiers in place of apps that sleep, and pushes to
their devices that there is something to fetch. It never sees what.

What decides here does no I/O, asks no clock and draws nothing: fresh keys, nonces and times are
arguments.
"""
