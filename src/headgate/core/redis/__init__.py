"""What Redis clients expect beside channels: keys with expiry, users and their rules, a cluster."""
