"""Clients of the wires."""
