"""Bytes of SMP: blocks, transmissions, commands and replies."""
