"""The notification server: it subscribes to notifiers in place of sleeping apps, and pushes to
their devices that there are messages. It never sees the messages.

The deciding code does no I/O and uses no clock and no random numbers: fresh keys, nonces and times
are arguments.
"""
