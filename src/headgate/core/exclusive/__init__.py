"""Queues with one subscriber and one unconfirmed message, and services that own many (SMP)."""
