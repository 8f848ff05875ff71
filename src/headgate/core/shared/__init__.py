"""Queues that apps and their consumers share, routed by priority and predicate (BlazingMQ)."""
