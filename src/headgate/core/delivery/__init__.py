"""Delivery, shared by all ways to subscribe: rosters of addresses, gates, mailboxes,
back-pressure."""
