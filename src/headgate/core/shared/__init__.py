"""Queues that apps and their consumers share, dispatched by priority and predicate (BlazingMQ)."""
