"""Pushing: codes, notices and periodic pushes, through providers that may be slow or fail.

`provider` says what a provider is, `queue` is what waits for one in `turns`, with `lanes` for each
host, `pusher` makes each push when its turn comes and keeps what became of it, and `periodic` finds
whose is due.

`providers` opens those of some `settings`: `web_push_provider` and `apns_provider` post with
`http_posting` to addresses that `names` found, and show who they are with `sender_keys`.
"""
