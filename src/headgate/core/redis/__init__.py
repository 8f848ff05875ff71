"""State for Redis clients beside channels: keys with expiry, users and rules, a cluster."""
