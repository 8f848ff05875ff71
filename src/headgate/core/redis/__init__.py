"""State that Redis clients expect beside channels: keys with expiry, users and rules, a cluster."""
