"""Channels and patterns: messages for the subscribers of the moment (Redis pub/sub)."""
