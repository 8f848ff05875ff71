"""Jobs of the pipeline: audits of services, dry runs, replays, a sink into queues and channels."""
