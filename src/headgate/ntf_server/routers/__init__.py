"""Routers: sessions with all of them, in which notifiers are subscribed for apps, and the notices
that come.

The agent's engine decides what is subscribed, when and in which session, in its role of a
notifier; `shell` carries it out, and `intake` takes the notices.
"""
