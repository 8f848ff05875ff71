"""Pushing: codes, notices and periodic pushes, through providers that may be slow or fail.

`provider` says what a provider is, `queue` is what waits for one, `pusher` makes each push when its
turn comes and keeps what became of it, and `periodic` finds whose is due.
"""
