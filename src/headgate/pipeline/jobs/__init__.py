"""What is run on top: audits of services, dry runs, replays, a sink into queues and channels."""
