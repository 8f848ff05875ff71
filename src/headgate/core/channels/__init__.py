"""Channels and patterns: messages for whoever listens at the moment (Redis pub/sub)."""
