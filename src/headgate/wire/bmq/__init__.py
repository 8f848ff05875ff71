"""BlazingMQ's protocol: shared queues, apps, subscriptions with expressions."""
